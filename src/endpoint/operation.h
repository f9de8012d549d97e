// An operation and how it is cut into stripes, blocks and packets: docs/protocol.md section 5.1.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "endpoint/config.h"
#include "numeric/types.h"
#include "wire/tag.h"

namespace passing::endpoint {

struct Operation {
  wire::OperationKind kind = wire::OperationKind::all_reduce;
  numeric::DataType type = numeric::DataType::float32;
  numeric::Reduction reduction = numeric::Reduction::sum;
  std::uint64_t elements = 0;
  /// The input is float32 whatever the type: sums of a host's narrow floats, which are rounded only once.
  bool wide = false;
  std::uint32_t divisor = 1;    ///< of an average: the number of ranks, 1 to 2^22 - 1
  const void* input = nullptr;  ///< must stay as it is until the operation ends
  void* output = nullptr;       ///< the input itself or disjoint from it; unspecified on failure
  Time deadline = 0;            ///< when to give up
  std::uint64_t number = 0;     ///< from the member's counter; set by Endpoint::submit

  numeric::DataType input_type() const { return wide ? numeric::DataType::float32 : type; }
  /// "operation 7 (average of 1000 float32 over 8)": the same words on every member.
  std::string describe() const;
};

/// The part of an operation that one lane carries.
struct Part {
  Operation operation;
  std::uint64_t index = 0;         ///< counts the submitted operations of the stream
  std::uint64_t first_stream = 0;  ///< stream number of its first block
  std::uint64_t first_block = 0;   ///< that block's number in the operation
  std::uint64_t blocks = 0;        ///< at least 1: section 5.1
  bool empty = false;              ///< one empty block: the lane has none of its own
  std::uint32_t hash = 0;          ///< of the operation, for tags
  std::uint64_t outstanding = 0;   ///< chunks allocated and without a result
  bool allocated = false;          ///< all its chunks have numbers

  Part(const Config& config, std::uint32_t lane, const Operation& operation, std::uint64_t index,
       std::uint64_t first_stream);

  /// Elements of the b-th of its blocks, and of one packet of it.
  std::uint32_t block_size(const Config& config, std::uint64_t b) const;
  std::uint32_t packet_size(const Config& config, std::uint64_t b, std::uint32_t packet) const;
  std::uint32_t packets(const Config& config, std::uint64_t b) const;
  /// Whether blocks have words at all; int32 and empty ones do not (section 7.1).
  bool has_word(const Config& config, std::uint64_t b) const;

  const std::byte* input(const Config& config, std::uint64_t b, std::uint32_t packet) const;
  std::byte* output(const Config& config, std::uint64_t b, std::uint32_t packet) const;

 private:
  std::size_t element(const Config& config, std::uint64_t b, std::uint32_t packet) const;
};

}  // namespace passing::endpoint
