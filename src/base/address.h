// Where a packet comes from: an IPv6 (or IPv4-mapped) address and a port. Compared, never used
// for I/O here; net/ converts to and from socket addresses.
#pragma once

#include <array>
#include <cstdint>

namespace passing {

struct Address {
  std::array<std::uint8_t, 16> ip{};
  std::uint16_t port = 0;

  friend bool operator==(const Address&, const Address&) = default;
};

}  // namespace passing
