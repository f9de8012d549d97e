// A collective as its ranks must agree on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "passing/types.h"

namespace passing::strategy {

enum class Kind : std::uint8_t { all_reduce = 1, broadcast = 2, barrier = 3, exchange = 4 };

/// What every rank must call alike.
struct Signature {
  Kind kind = Kind::barrier;
  DataType type{};
  Reduction reduction{};
  std::uint32_t root = 0;
  std::uint64_t count = 0;

  bool operator==(const Signature&) const = default;
  /// "all_reduce of 1000 float32 (sum)".
  std::string describe() const;
  /// For tags: a message of another operation is seen at once.
  std::uint32_t hash() const;
};

/// One rank's call.
struct Call {
  Signature signature;
  std::uint64_t number = 0;  ///< counts the collectives of a communicator
  Time deadline = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::string blob;                ///< exchange: what this rank gives,
  std::vector<std::string> blobs;  ///< and what all gave

  std::size_t bytes() const { return signature.count * size_of(signature.type); }
};

}  // namespace passing::strategy
