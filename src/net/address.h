// Addresses between text, socket addresses and the protocol's own.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/address.h"
#include "base/error.h"

namespace passing::net {

/// A socket address of either family.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
};

/// "10.0.0.1:9000", "[fe80::1%eth0]:9000", "name:9000". Names are looked up.
Expected<SocketAddress> parse_address(const std::string& text);
/// The same with a default port where the text has none.
Expected<SocketAddress> parse_address(const std::string& text, std::uint16_t default_port);
/// Without looking up names: for text that strangers send.
Expected<SocketAddress> parse_numeric_address(const std::string& text);
std::string to_string(const SocketAddress& address);

/// The address that other machines reach this one by: `wanted` if given (an IP), else the one that is used
/// towards `peer` (HOST:PORT, may be empty), else the first that is not loopback. The port is 0.
Expected<SocketAddress> own_address(const std::string& wanted, const std::string& peer);

Address to_protocol(const SocketAddress& address);

/// Of the interface with this address, in Gbit/s, as it says itself; 0: it does not.
double link_rate(const SocketAddress& local);

}  // namespace passing::net
