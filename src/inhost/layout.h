// What lies in the shared memory of a host: docs/inhost.md section 2. Every word has one writer, but the
// bells and the fault; nothing in it is a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace passing::inhost {

constexpr std::uint32_t kMostRanks = 64;
constexpr std::uint32_t kSlots = 4;
constexpr std::uint64_t kMagic = 0x31'74'73'6F'68'73'61'70;  // "pashost1"
// Two lines: processors fetch them in pairs.
constexpr std::size_t kLine = 128;
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

/// How far a rank is. Each counts pieces, from the first of the host's life on.
enum Stage : std::uint8_t {
  given,   ///< its input can be read
  added,   ///< it has read all inputs it needs
  summed,  ///< the results of its stripe can be read
  taken,   ///< it has all results, and reads nothing of the piece any more
};
constexpr std::size_t kStages = 4;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// What a rank sleeps for: that all ranks have reached these counts, or one of them. kNowhere: not for that.
struct Awaited {
  std::array<std::uint64_t, kStages> least{kNowhere, kNowhere, kNowhere, kNowhere};
};

enum Bell : std::uint32_t { awake, in_futex, in_poll };

/// Why nothing works any more, as one rank reports it.
struct Fault {
  std::uint64_t ranks = 0;  ///< a bit for each rank concerned
  std::uint64_t piece = 0;
  std::uint64_t operation = 0;
  std::uint32_t code = 0;  ///< an ErrorCode
  std::uint32_t left = 0;  ///< lost by leaving, not by death
};

/// One operation as one rank calls it, and where its buffers are: one for each slot.
struct alignas(64) Description {
  std::uint64_t operation = 0;
  std::uint64_t index = 0;  ///< of the piece in the operation
  std::uint64_t count = 0;
  std::uint64_t input = kNowhere;  ///< offsets in the part of its rank; kNowhere: not in shared memory
  std::uint64_t output = kNowhere;
  std::uint32_t type = 0;
  std::uint32_t reduction = 0;
  std::uint32_t owners = 0;
  std::uint32_t relayed = 0;
};
static_assert(sizeof(Description) == 64);

struct Rank {
  struct alignas(kLine) {
    Word count{0};
  } stages[kStages];
  struct alignas(kLine) {
    std::atomic<std::uint32_t> bell{awake};
    Word least[kStages];
  } sleep;
  struct alignas(kLine) {
    std::atomic<std::uint32_t> left{0};
    Fault fault;
  } state;
  Description descriptions[kSlots];
};

struct alignas(kPage) Header {
  std::uint64_t magic = kMagic;
  std::uint64_t ranks = 0;
  std::uint64_t part_bytes = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t cores = 0;
  alignas(kLine) std::atomic<std::uint32_t> reporter{0};  ///< whose fault it is that counts: index + 1
  alignas(kLine) Rank rank[kMostRanks];
};

/// What slots take of a part: for inputs, and for results.
inline std::size_t all_slots(std::size_t slot_bytes) { return 2 * kSlots * slot_bytes; }

/// The header, then a part for each rank: its slots, then what allocate() gives.
inline std::size_t segment_bytes(std::size_t ranks, std::size_t part_bytes) {
  return sizeof(Header) + ranks * part_bytes;
}

}  // namespace passing::inhost
