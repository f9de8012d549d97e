// What ranks tell each other of faults: docs/faults.md sections 3 and 6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace passing::judge {

/// What a rank says of itself. Only its owner makes a new version.
struct Record {
  static constexpr std::size_t kMostWaits = 8;
  static constexpr std::size_t kMostLost = 32;

  std::uint32_t version = 0;  ///< 0: nothing has been heard of it
  std::uint64_t round = 0;    ///< the newest roll call that it knows
  std::uint64_t called = 0;   ///< collectives
  bool left = false;
  std::optional<std::uint64_t> turn;  ///< the oldest operation that has not ended
  std::vector<std::uint16_t> waits;
  std::vector<std::uint16_t> lost;
};

/// Why the group fails, as one rank sees it.
struct Proposal {
  /// It must fit a small message.
  static constexpr std::size_t kMostText = 4096;
  static constexpr std::size_t kMostMembers = 4096;

  std::uint16_t proposer = 0;
  Error error;

  /// Whether everyone should rather take this one.
  bool better_than(const Proposal& other) const;
  bool operator==(const Proposal& other) const {
    return proposer == other.proposer && error.code == other.error.code &&
           error.members == other.error.members && error.message == other.error.message;
  }
};

/// One message between neighbours: news of records, or a proposal.
struct News {
  struct Entry {
    std::uint16_t rank = 0;
    Record record;
  };

  std::uint64_t round = 0;
  std::vector<Entry> entries;
  std::optional<Proposal> proposal;

  /// Fits a small message, whatever is in it.
  static constexpr std::size_t kMostEntries = 64;

  std::string encode() const;
  /// None if it cannot be right.
  static std::optional<News> decode(const std::string& data);
};

}  // namespace passing::judge
