// Where a packet comes from: an IPv6 (or IPv4-mapped) address and a port. Compared, never used
// for I/O here; net/ converts to and from socket addresses.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace passing {

struct Address {
  std::array<std::uint8_t, 16> ip{};
  std::uint16_t port = 0;

  // By words: every packet is compared, and a library call for 16 bytes costs more than the sum of its
  // payload.
  friend bool operator==(const Address& a, const Address& b) {
    using Words = std::array<std::uint64_t, 2>;
    return std::bit_cast<Words>(a.ip) == std::bit_cast<Words>(b.ip) && a.port == b.port;
  }
};

}  // namespace passing
