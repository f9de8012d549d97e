// A collective as its ranks must agree on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "passing/types.h"

namespace passing::strategy {

enum class Kind : std::uint8_t {
  all_reduce = 1,
  broadcast,
  barrier,
  exchange,
  reduce,
  reduce_scatter,
  all_gather,
  gather,
  scatter,
  all_to_all,
};

/// What every rank must call alike.
struct Signature {
  Kind kind = Kind::barrier;
  DataType type{};
  Reduction reduction{};
  std::uint32_t root = 0;
  std::uint64_t count = 0;  ///< of reduce_scatter, gather, scatter, all_to_all: for one rank
  std::uint64_t shape = 0;  ///< of the v-forms: a hash of what all ranks must give alike

  bool operator==(const Signature&) const = default;
  /// "all_reduce of 1000 float32 (sum)".
  std::string describe() const;
  /// For tags: a message of another operation is seen at once.
  std::uint32_t hash() const;

  void write(Writer& out) const;
  void read(Reader& in);
};

/// One rank's call.
struct Call {
  Signature signature;
  std::uint64_t number = 0;  ///< counts the collectives of a communicator
  Time deadline = 0;
  const void* input = nullptr;
  void* output = nullptr;
  // Elements for each rank, and from each rank, in order of rank; all_gather: from each.
  std::vector<std::size_t> outgoing;
  std::vector<std::size_t> incoming;
  std::string blob;                ///< exchange: what this rank gives,
  std::vector<std::string> blobs;  ///< and what all gave

  /// " (10, 20, 30 of each rank)" where a signature's hash of the counts says too little; else nothing.
  std::string describe_counts() const;
  /// Number and signature, for a server.
  std::string encode() const;
  static std::optional<Call> decode(const std::string& data);
  std::size_t bytes() const { return signature.count * size_of(signature.type); }
};

}  // namespace passing::strategy
