#include "wire/packet.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace passing::wire {
namespace {

static_assert(sizeof(passing_header) == PASSING_HEADER_BYTES);
static_assert(offsetof(passing_header, key) == 8);
static_assert(offsetof(passing_header, tag) == 24);
static_assert(offsetof(passing_header, flags) == 35);
static_assert(sizeof(passing_report) == 4 * PASSING_REPORT_WORDS);

constexpr std::uint16_t big(std::uint16_t v) {
  return std::endian::native == std::endian::big ? v : __builtin_bswap16(v);
}
constexpr std::uint32_t big(std::uint32_t v) {
  return std::endian::native == std::endian::big ? v : __builtin_bswap32(v);
}
constexpr std::uint64_t big(std::uint64_t v) {
  return std::endian::native == std::endian::big ? v : __builtin_bswap64(v);
}

bool right_direction(std::uint8_t type, Direction direction) {
  switch (type) {
    case PASSING_CONTRIBUTION:
    case PASSING_ABORT:
    case PASSING_STATUS_REQUEST: return direction == Direction::to_switch;
    case PASSING_RESULT:
    case PASSING_NOTICE:
    case PASSING_STATUS: return direction == Direction::to_member;
    default: return false;
  }
}

bool right_count(std::uint8_t type, std::uint16_t count, std::uint16_t max_count) {
  switch (type) {
    case PASSING_CONTRIBUTION:
    case PASSING_RESULT: return count <= max_count;
    case PASSING_ABORT: return count == 0;
    default: return count == PASSING_REPORT_WORDS;
  }
}

bool valid_word(std::uint16_t word) {
  return word <= PASSING_WORD_FINITE_MAX || word >= PASSING_WORD_NONFINITE;
}

}  // namespace

Drop parse(Bytes packet, Direction direction, std::uint16_t max_count, Header& header) {
  if (packet.size() < PASSING_HEADER_BYTES) return Drop::too_short;
  passing_header raw;
  std::memcpy(&raw, packet.data(), sizeof raw);
  if (raw.magic != big(std::uint16_t{PASSING_MAGIC})) return Drop::bad_magic;
  if (raw.version != PASSING_VERSION) return Drop::bad_version;
  if (!right_direction(raw.type, direction)) return Drop::bad_type;
  if ((raw.flags & ~PASSING_FLAG_AGAIN) != 0) return Drop::bad_flags;
  const std::uint16_t count = big(raw.count);
  if (!right_count(raw.type, count, max_count)) return Drop::bad_count;
  if (packet.size() != packet_bytes(count)) return Drop::bad_length;
  const std::uint16_t word = big(raw.word);
  if (!valid_word(word)) return Drop::bad_word;
  std::uint64_t key = 0;
  std::memcpy(&key, raw.key, sizeof key);
  header = Header{.type = static_cast<Type>(raw.type),
                  .job = big(raw.job),
                  .key = big(key),
                  .epoch = big(raw.epoch),
                  .sequence = big(raw.sequence),
                  .tag = big(raw.tag),
                  .word = word,
                  .count = count,
                  .member = big(raw.member),
                  .lane = raw.lane,
                  .flags = raw.flags};
  return Drop::none;
}

void write_header(const Header& header, std::byte* out) {
  passing_header raw{};
  raw.magic = big(std::uint16_t{PASSING_MAGIC});
  raw.version = PASSING_VERSION;
  raw.type = static_cast<std::uint8_t>(header.type);
  raw.job = big(header.job);
  const std::uint64_t key = big(header.key);
  std::memcpy(raw.key, &key, sizeof key);
  raw.epoch = big(header.epoch);
  raw.sequence = big(header.sequence);
  raw.tag = big(header.tag);
  raw.word = big(header.word);
  raw.count = big(header.count);
  raw.member = big(header.member);
  raw.lane = header.lane;
  raw.flags = header.flags;
  std::memcpy(out, &raw, sizeof raw);
}

void write_report(const Report& report, std::byte* out) {
  passing_report raw{};
  raw.bitmap_high = big(static_cast<std::uint32_t>(report.bitmap >> 32));
  raw.bitmap_low = big(static_cast<std::uint32_t>(report.bitmap));
  raw.tag = big(report.tag);
  raw.state = big(static_cast<std::uint32_t>(report.state));
  raw.members = big((std::uint32_t{report.first} << 16) | report.second);
  std::memcpy(out, &raw, sizeof raw);
}

bool read_report(const std::byte* in, Report& report) {
  passing_report raw;
  std::memcpy(&raw, in, sizeof raw);
  const std::uint32_t state = big(raw.state);
  if (state > PASSING_SLOT_ABORTED) return false;
  const std::uint32_t members = big(raw.members);
  report = Report{.bitmap = (std::uint64_t{big(raw.bitmap_high)} << 32) | big(raw.bitmap_low),
                  .tag = big(raw.tag),
                  .state = static_cast<SlotState>(state),
                  .first = static_cast<std::uint16_t>(members >> 16),
                  .second = static_cast<std::uint16_t>(members)};
  return true;
}

const char* to_string(Type type) {
  switch (type) {
    case Type::contribution: return "CONTRIBUTION";
    case Type::result: return "RESULT";
    case Type::notice: return "NOTICE";
    case Type::abort: return "ABORT";
    case Type::status_request: return "STATUS_REQUEST";
    case Type::status: return "STATUS";
  }
  return "?";
}

const char* to_string(Drop drop) {
  switch (drop) {
    case Drop::too_short: return "too_short";
    case Drop::bad_magic: return "bad_magic";
    case Drop::bad_version: return "bad_version";
    case Drop::bad_type: return "bad_type";
    case Drop::bad_flags: return "bad_flags";
    case Drop::bad_count: return "bad_count";
    case Drop::bad_length: return "bad_length";
    case Drop::bad_word: return "bad_word";
    case Drop::unknown_job: return "unknown_job";
    case Drop::wrong_key: return "wrong_key";
    case Drop::wrong_epoch: return "wrong_epoch";
    case Drop::bad_member: return "bad_member";
    case Drop::bad_lane: return "bad_lane";
    case Drop::wrong_source: return "wrong_source";
    case Drop::wrong_sequence: return "wrong_sequence";
    case Drop::wrong_count: return "wrong_count";
    case Drop::none: return "none";
  }
  return "?";
}

const char* to_string(SlotState state) {
  switch (state) {
    case SlotState::absent: return "absent";
    case SlotState::filling: return "filling";
    case SlotState::complete: return "complete";
    case SlotState::disagreement: return "disagreement";
    case SlotState::aborted: return "aborted";
  }
  return "?";
}

std::string word_to_string(std::uint16_t word) {
  switch (word) {
    case PASSING_WORD_NONE: return "NONE";
    case PASSING_WORD_NONFINITE: return "NONFINITE";
    case PASSING_WORD_UNKNOWN: return "UNKNOWN";
    default: return std::to_string(word);
  }
}

std::string to_string(const Header& h) {
  return fmt::format("{} job={} epoch={} lane={} seq={} member={} tag={:08x} word={} count={}{}",
                     to_string(h.type), h.job, h.epoch, h.lane, h.sequence, h.member, h.tag,
                     word_to_string(h.word), h.count, (h.flags & PASSING_FLAG_AGAIN) != 0 ? " AGAIN" : "");
}

}  // namespace passing::wire
