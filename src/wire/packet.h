// Reading and writing packets: docs/protocol.md section 2, in host types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "wire/wire.h"

namespace passing::wire {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

enum class Type : std::uint8_t {
  contribution = PASSING_CONTRIBUTION,
  result = PASSING_RESULT,
  notice = PASSING_NOTICE,
  abort = PASSING_ABORT,
  status_request = PASSING_STATUS_REQUEST,
  status = PASSING_STATUS,
};

enum class SlotState : std::uint8_t {
  absent = PASSING_SLOT_ABSENT,
  filling = PASSING_SLOT_FILLING,
  complete = PASSING_SLOT_COMPLETE,
  disagreement = PASSING_SLOT_DISAGREEMENT,
  aborted = PASSING_SLOT_ABORTED,
};

/// Why a packet was dropped (section 4.4), in the order of the checks.
enum class Drop : std::uint8_t {
  too_short,
  bad_magic,
  bad_version,
  bad_type,
  bad_flags,
  bad_count,
  bad_length,
  bad_word,
  unknown_job,
  wrong_key,
  wrong_epoch,
  bad_member,
  bad_lane,
  wrong_source,
  wrong_sequence,
  wrong_count,
  none,  ///< not dropped
};
constexpr std::size_t kDropReasons = static_cast<std::size_t>(Drop::none);

struct Header {
  Type type{};
  std::uint32_t job = 0;
  std::uint64_t key = 0;
  std::uint32_t epoch = 0;
  std::uint32_t sequence = 0;
  std::uint32_t tag = 0;
  std::uint16_t word = 0;
  std::uint16_t count = 0;
  std::uint16_t member = 0;
  std::uint8_t lane = 0;
  std::uint8_t flags = 0;
};

/// What a slot says of itself in NOTICE and STATUS.
struct Report {
  std::uint64_t bitmap = 0;
  std::uint32_t tag = 0;
  SlotState state = SlotState::absent;
  std::uint16_t first = 0;   ///< who opened the slot
  std::uint16_t second = 0;  ///< who disagreed or aborted
};

/// Which way a packet travels: the types a receiver accepts.
enum class Direction : std::uint8_t { to_switch, to_member };

constexpr std::size_t packet_bytes(std::size_t count) { return PASSING_HEADER_BYTES + 4 * count; }

/// Checks everything that needs no job: length to word. `max_count` is E.
Drop parse(Bytes packet, Direction direction, std::uint16_t max_count, Header& header);

void write_header(const Header& header, std::byte* out);
/// Writes the report as payload; `out` has room for PASSING_REPORT_WORDS words.
void write_report(const Report& report, std::byte* out);
/// Reads the payload of NOTICE and STATUS. False if the state is not one that exists.
bool read_report(const std::byte* in, Report& report);

const char* to_string(Type type);
const char* to_string(Drop drop);
const char* to_string(SlotState state);
std::string word_to_string(std::uint16_t word);
/// One readable line, for traces.
std::string to_string(const Header& header);

}  // namespace passing::wire
