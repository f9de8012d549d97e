// Which elements fit a packet of a given MTU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/address.h"
#include "wire/wire.h"

namespace passing::net {

constexpr int kSmallestMtu = 576;
constexpr int kLargestMtu = 9000;
/// XDP takes frames of one buffer: a page, less what the kernel needs of it.
constexpr int kLargestXdpMtu = 3500;
/// IPv6 and UDP headers: the larger of the two families, so that both fit.
constexpr int kNetworkHeaders = 48;

/// The largest divisor of a block that fits, so that packets never straddle one: 352 for 1500.
constexpr std::uint16_t elements_for_mtu(int mtu) {
  const int most = (mtu - kNetworkHeaders - PASSING_HEADER_BYTES) / 4;
  int elements = most < PASSING_BLOCK_ELEMENTS ? most : PASSING_BLOCK_ELEMENTS;
  while (PASSING_BLOCK_ELEMENTS % elements != 0) --elements;
  return static_cast<std::uint16_t>(elements);
}

/// The MTU that packets with so many elements need.
constexpr int mtu_for_elements(std::uint32_t elements) {
  return static_cast<int>(4 * elements) + PASSING_HEADER_BYTES + kNetworkHeaders;
}

/// The smallest MTU of the interfaces that `local` listens on (all that are up, if it is a wildcard).
Expected<int> interface_mtu(const SocketAddress& local);
/// The smallest MTU of these.
Expected<int> interface_mtu(const std::vector<std::string>& interfaces);

}  // namespace passing::net
