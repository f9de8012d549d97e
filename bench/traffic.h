// Prepared traffic for one aggregator: every member's packet for every slot.
#pragma once

#include <cstring>
#include <vector>

#include "dataplane/aggregator.h"

namespace passing::bench {

class Traffic {
 public:
  static constexpr std::uint32_t kSlots = 256;
  static constexpr std::uint16_t kElements = 352;
  static constexpr std::size_t kBytes = wire::packet_bytes(kElements);

  explicit Traffic(std::uint16_t members)
      : aggregator({.elements = kElements, .slots = kSlots}), members_(members) {
    dataplane::JobSpec spec{.job = 1,
                            .epoch = 1,
                            .key = 7,
                            .members = members,
                            .lanes = 1,
                            .slots = kSlots,
                            .first_sequence = 0,
                            .addresses = {}};
    for (std::uint16_t m = 0; m < members; ++m) spec.addresses.push_back(address_of(m));
    PASSING_ASSERT(aggregator.jobs().install(spec));
    packets_.resize(std::size_t{kSlots} * members * kBytes);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      for (std::uint16_t m = 0; m < members; ++m) {
        wire::Header header{.type = wire::Type::contribution,
                            .job = 1,
                            .key = 7,
                            .epoch = 1,
                            .sequence = 0,
                            .tag = 9,
                            .word = 100,
                            .count = kElements,
                            .member = m};
        wire::write_header(header, packet(slot, m));
        std::memset(packet(slot, m) + PASSING_HEADER_BYTES, m + 1, 4 * kElements);
      }
    }
  }

  std::byte* packet(std::uint32_t slot, std::uint16_t member) {
    return packets_.data() + (std::size_t{slot} * members_ + member) * kBytes;
  }

  /// One lap: every member's packet for every slot, results copied to `out`.
  void lap(std::byte* out) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      const std::uint32_t sequence = __builtin_bswap32(lap_ * kSlots + slot);
      for (std::uint16_t m = 0; m < members_; ++m) {
        std::byte* p = packet(slot, m);
        std::memcpy(p + 20, &sequence, 4);
        const auto verdict = aggregator.handle(address_of(m), {p, kBytes}, out);
        PASSING_ASSERT((verdict.bytes != 0) == (m + 1 == members_));
      }
    }
    ++lap_;
  }

  std::size_t packets_per_lap() const { return std::size_t{kSlots} * members_; }

  dataplane::Aggregator aggregator;

 private:
  static Address address_of(std::uint16_t member) {
    Address address;
    address.port = member;
    return address;
  }

  std::uint16_t members_;
  std::uint32_t lap_ = 0;
  std::vector<std::byte> packets_;
};

}  // namespace passing::bench
