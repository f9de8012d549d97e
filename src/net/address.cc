#include "net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <cstring>

namespace passing::net {

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
}

namespace {

Expected<SocketAddress> look_up(const std::string& text, const std::string& host, const std::string& port,
                                int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (status != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("address '{}': {}; write HOST:PORT or [IPV6]:PORT", text, gai_strerror(status)));
  }
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

Expected<SocketAddress> parse(const std::string& text, const std::string& default_port, int flags = 0) {
  std::string host = text;
  std::string port = default_port;
  const auto colon = text.rfind(':');
  if (!text.empty() && text[0] == '[') {
    const auto bracket = text.find(']');
    if (bracket == std::string::npos) return look_up(text, "", "", AI_NUMERICHOST);
    host = text.substr(1, bracket - 1);
    if (bracket + 1 < text.size() && text[bracket + 1] == ':') port = text.substr(bracket + 2);
  } else if (colon != std::string::npos && text.find(':') == colon) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const bool number = !port.empty() && port.find_first_not_of("0123456789") == std::string::npos;
  if (host.empty() || !number || port.size() > 5 || std::stoi(port) > 65535) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("address '{}': write HOST:PORT or [IPV6]:PORT, with a port from 0 to 65535", text));
  }
  return look_up(text, host, port, flags);
}

}  // namespace

Expected<SocketAddress> parse_address(const std::string& text) { return parse(text, ""); }

Expected<SocketAddress> parse_numeric_address(const std::string& text) {
  return parse(text, "", AI_NUMERICHOST);
}

Expected<SocketAddress> parse_address(const std::string& text, std::uint16_t default_port) {
  return parse(text, std::to_string(default_port));
}

std::string to_string(const SocketAddress& address) {
  char host[NI_MAXHOST] = "?";
  getnameinfo(address.get(), address.length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  if (address.family() == AF_INET6) return fmt::format("[{}]:{}", host, address.port());
  return fmt::format("{}:{}", host, address.port());
}

Address to_protocol(const SocketAddress& address) {
  Address result;
  result.port = address.port();
  if (address.family() == AF_INET6) {
    std::memcpy(result.ip.data(), &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr, 16);
  } else {
    result.ip[10] = result.ip[11] = 0xFF;
    std::memcpy(result.ip.data() + 12, &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr, 4);
  }
  return result;
}

}  // namespace passing::net
