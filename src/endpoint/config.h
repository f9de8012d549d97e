// What a member needs to know to take part in a job: docs/protocol.md sections 1 and 6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/error.h"
#include "base/time.h"
#include "wire/wire.h"

namespace passing::endpoint {

/// The byte order of the payload that the switch sums.
enum class PayloadOrder : std::uint8_t { little, big };

struct Config {
  std::uint32_t job = 0;
  std::uint32_t epoch = 0;
  std::uint64_t key = 0;
  std::uint16_t member = 0;
  std::uint16_t members = 1;                              ///< H: 1 to 64
  std::uint32_t tree_members = 0;                         ///< N: members to 1023; 0: as members
  std::uint32_t lanes = 1;                                ///< L: 1 to 64
  std::uint32_t slots = 256;                              ///< S: per lane, power of two, 1 to 32768
  std::uint32_t elements = 352;                           ///< E: 1 to 2112, divides block_elements
  std::uint32_t block_elements = PASSING_BLOCK_ELEMENTS;  ///< B: at most 128 elements
  std::int64_t lookahead = -1;       ///< D: 0 to 65535 blocks; -1: the smallest that keeps S slots busy
  std::uint32_t first_sequence = 0;  ///< F: multiple of 2 x slots
  PayloadOrder order = PayloadOrder::little;
  std::vector<Address> switch_addresses;  ///< one per lane; packets from elsewhere are dropped
  std::vector<std::string> names;         ///< one per member, for messages; may be empty

  Duration initial_timeout = 20 * kMillisecond;  ///< before the first round trip is measured
  Duration minimum_timeout = 5 * kMillisecond;
  Duration maximum_timeout = 1 * kSecond;
  Duration grace = 5 * kSecond;  ///< how long an unanswered abort is repeated

  /// One sentence naming the setting, its value and its range.
  Expected<void> validate() const;

  std::uint32_t tree() const { return tree_members == 0 ? members : tree_members; }
  std::uint32_t packets_per_block() const { return block_elements / elements; }
  std::uint32_t blocks_ahead() const;  ///< D, resolved
  std::string name_of(std::uint16_t which) const;
  /// "member a, member b", for messages.
  std::string names_of(const std::vector<std::uint16_t>& which) const;
};

}  // namespace passing::endpoint
