// What a lane knows of the words of blocks to come: docs/protocol.md section 7.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "wire/wire.h"

namespace passing::endpoint {

/// Words of the blocks from the current one to D after it. Blocks are stream numbers.
class Lookahead {
 public:
  explicit Lookahead(std::uint32_t ahead) : ahead_(ahead), entries_(std::bit_ceil(ahead + 1)) {}

  std::uint32_t ahead() const { return ahead_; }

  bool resolved(std::uint64_t block) const { return at(block).resolved; }
  std::uint16_t word(std::uint64_t block) const { return at(block).word; }

  /// The current block moves on: words that still arrive for `block` are of no use.
  void pass(std::uint64_t block) {
    current_ = block + 1;
    at(block) = {};  // UNKNOWN: right for D = 0, set by carry() otherwise
  }

  /// A packet with the word of `block` is on its way.
  void carry(std::uint64_t block) { at(block) = {.word = 0, .resolved = false}; }
  /// Its result. A burst that covers the block has replaced it (section 7.3).
  void carried(std::uint64_t block, std::uint16_t word) {
    if (block >= current_ && block >= burst_end_) at(block) = {.word = word, .resolved = true};
  }

  /// Exponent chunks are inserted for the blocks [begin, end).
  void burst(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t block = begin; block < end; ++block) carry(block);
    burst_end_ = end;
  }
  void burst_result(std::uint64_t block, std::uint16_t word) {
    if (block >= current_) at(block) = {.word = word, .resolved = true};
  }

 private:
  struct Entry {
    std::uint16_t word = PASSING_WORD_UNKNOWN;  // section 7.2: so begin the first D blocks
    bool resolved = true;
  };
  Entry& at(std::uint64_t block) { return entries_[block & (entries_.size() - 1)]; }
  const Entry& at(std::uint64_t block) const { return entries_[block & (entries_.size() - 1)]; }

  std::uint32_t ahead_;
  std::vector<Entry> entries_;
  std::uint64_t current_ = 0;
  std::uint64_t burst_end_ = 0;
};

}  // namespace passing::endpoint
