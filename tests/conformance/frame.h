// Ethernet frames with a UDP datagram, written and read by rules of their own: what programs in the kernel
// see.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"

namespace passing::conformance {

using Mac = std::array<std::uint8_t, 6>;

struct Datagram {
  Mac from_mac{};
  Mac to_mac{};
  Address from;
  Address to;
  std::vector<std::byte> payload;
};

/// IPv4 if both addresses are mapped ones, else IPv6. Without UDP checksum.
std::vector<std::byte> write_frame(const Datagram& datagram);

/// What the network stack would hand to a socket: nothing if lengths, the header's checksum or the kind of
/// frame are not right. Fragments, options and extension headers count as not right here. UDP checksums are
/// not looked at.
std::optional<Datagram> read_frame(std::span<const std::byte> frame);

/// 10.JOB.LANE.MEMBER for an address of the cases, which is an IPv6 one.
Address as_ipv4(const Address& address);

}  // namespace passing::conformance
