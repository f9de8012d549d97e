// Reductions over the ranks of a host, in their order: docs/numerics.md section 7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "passing/types.h"

namespace passing::inhost {

/// What sums of a type are made in: float16 and bfloat16 are combined in float32.
constexpr DataType wide_type(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16 ? DataType::float32 : type;
}

/// ((x_0 op x_1) op x_2) op ..., element by element. Not for several threads at a time: it has scratch
/// memory.
class Sum {
 public:
  static bool possible(DataType type, Reduction reduction);
  Sum(DataType type, Reduction reduction);

  DataType wide() const { return wide_; }
  /// `out`, in the wide type, may be one of the sources only if that is the type itself.
  void add(std::span<const std::byte* const> sources, std::size_t count, void* out);
  /// The same as the type has it, an average divided by `divisor`: `out` may be one of the sources.
  void finish(std::span<const std::byte* const> sources, std::size_t count, std::uint32_t divisor, void* out);

 private:
  // Scratch of a tile, once it is needed.
  static std::byte* scratch(std::unique_ptr<std::byte[]>& memory);
  void add_tile(std::span<const std::byte* const> sources, std::size_t first, std::size_t count, void* out);

  DataType type_;
  DataType wide_;
  Reduction reduction_;
  std::unique_ptr<std::byte[]> tile_;     // what is summed so far
  std::unique_ptr<std::byte[]> operand_;  // widened
};

}  // namespace passing::inhost
