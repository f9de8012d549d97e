#include "net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/shortage.h"

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
    const int reason = status == EAI_MEMORY ? ENOMEM : status == EAI_SYSTEM ? errno : 0;
    if (is_shortage(reason))
      return system_failure(ErrorCode::no_capacity, fmt::format("address '{}'", text), reason);
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

Expected<SocketAddress> own_address(const std::string& wanted, const std::string& peer) {
  if (!wanted.empty()) {
    const bool six = wanted.find(':') != std::string::npos;
    auto given = parse_numeric_address(six ? "[" + wanted + "]:0" : wanted + ":0");
    if (!given) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("address is '{}': must be an IP of this machine (PASSING_ADDRESS)", wanted));
    }
    return given;
  }
  if (const auto there = peer.empty() ? Expected<SocketAddress>(fail(ErrorCode::invalid_argument, ""))
                                      : parse_address(peer)) {
    // Nothing is sent: connecting a datagram socket only asks for a route.
    const int probe = ::socket(there->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    SocketAddress local;
    local.length = sizeof local.storage;
    const bool found = probe >= 0 && ::connect(probe, there->get(), there->length) == 0 &&
                       getsockname(probe, local.get(), &local.length) == 0;
    if (probe >= 0) ::close(probe);
    if (found) {
      local.set_port(0);
      return local;
    }
  }
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    auto failed = system_failure(ErrorCode::invalid_argument, "cannot list the interfaces", errno);
    if (failed.value().code == ErrorCode::invalid_argument) failed.value().message += "; set PASSING_ADDRESS";
    return failed;
  }
  SocketAddress best;
  int rank = 0;  // loopback 1, IPv6 2, IPv4 3
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address;
    address.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(&address.storage, each->ifa_addr, address.length);
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
    const int found = (each->ifa_flags & IFF_LOOPBACK) != 0 ? 1 : family == AF_INET6 ? 2 : 3;
    if (found <= rank) continue;
    rank = found;
    best = address;
  }
  freeifaddrs(list);
  if (rank == 0) return fail(ErrorCode::invalid_argument, "no interface is up; set PASSING_ADDRESS");
  return best;
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

double link_rate(const SocketAddress& local) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return 0;
  std::string interface;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != local.family()) continue;
    const bool six = local.family() == AF_INET6;
    const auto* ours = local.get();
    const bool same =
        six ? std::memcmp(&reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr,
                          &reinterpret_cast<const sockaddr_in6*>(ours)->sin6_addr, sizeof(in6_addr)) == 0
            : std::memcmp(&reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr,
                          &reinterpret_cast<const sockaddr_in*>(ours)->sin_addr, sizeof(in_addr)) == 0;
    if (same) interface = each->ifa_name;
  }
  freeifaddrs(list);
  double megabits = 0;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> megabits;
  return megabits > 0 ? megabits / 1000 : 0;
}

}  // namespace passing::net
