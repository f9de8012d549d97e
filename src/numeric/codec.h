// Block fixed point: floats to int32 and back, docs/numerics.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/kernels.h"
#include "numeric/types.h"

namespace passing::numeric {

/// Converts parts of blocks for a job whose tree has `tree_members` members. Immutable; any thread.
class Codec {
 public:
  explicit Codec(std::uint32_t tree_members, const Kernels& kernels = numeric::kernels());

  /// The word of a block (section 2): NONE, finite or NONFINITE.
  std::uint16_t block_word(DataType type, const void* in, std::size_t n) const;
  /// The same with NaN and infinities counted as 0.
  std::uint16_t finite_word(DataType type, const void* in, std::size_t n) const;

  /// Section 3. `word` is the block's, over all members: NONE or finite.
  void quantise(DataType type, const void* in, std::size_t n, std::uint16_t word, void* out) const;
  /// The same for a NONFINITE block, with `word` its finite word.
  void quantise_finite(DataType type, const void* in, std::size_t n, std::uint16_t word, void* out) const;
  /// Section 5. int32 ignores `word`.
  void dequantise(DataType type, Reduction reduction, std::uint32_t divisor, const void* in, std::size_t n,
                  std::uint16_t word, void* out) const;

  /// Section 4: the counts of one member, and their effect on a dequantised result.
  static void classify(DataType type, const void* in, std::size_t n, std::int32_t* out);
  static void apply_classes(DataType type, const std::int32_t* classes, std::size_t n, void* out);

  const Kernels& kernels() const { return *kernels_; }

 private:
  int exponent(std::uint16_t word) const { return 157 - word - headroom_; }

  const Kernels* kernels_;
  int headroom_;  // h
};

}  // namespace passing::numeric
