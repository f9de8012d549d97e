#include "net/mtu.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace passing::net {
namespace {

int mtu_of(const char* name) {
  const int descriptor = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  const int status = ioctl(descriptor, SIOCGIFMTU, &request);
  ::close(descriptor);
  return status == 0 ? request.ifr_mtu : 0;
}

bool same_ip(const SocketAddress& a, const sockaddr* b) {
  if (b == nullptr || a.family() != b->sa_family) return false;
  SocketAddress other;
  other.length = b->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&other.storage, b, other.length);
  return to_protocol(a).ip == to_protocol(other).ip;
}

}  // namespace

Expected<int> interface_mtu(const SocketAddress& local) {
  const auto ip = to_protocol(local).ip;
  const auto zeros = static_cast<std::size_t>(std::count(ip.begin(), ip.end(), 0));
  const bool wildcard = zeros == 16 || (local.family() == AF_INET && zeros == 14);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return fail(ErrorCode::invalid_argument, "cannot list the interfaces; give --mtu");
  int smallest = 0;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    const bool up = (each->ifa_flags & IFF_UP) != 0;
    const bool loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    if (!up || !(wildcard ? !loopback : same_ip(local, each->ifa_addr))) continue;
    const int mtu = mtu_of(each->ifa_name);
    if (mtu > 0) smallest = smallest == 0 ? mtu : std::min(smallest, mtu);
  }
  freeifaddrs(list);
  if (smallest == 0 && wildcard) smallest = 1500;  // loopback only
  if (smallest == 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("no interface has the address {}", to_string(local)));
  }
  return std::min(smallest, kLargestMtu);
}

Expected<int> interface_mtu(const std::vector<std::string>& interfaces) {
  int smallest = kLargestMtu;
  for (const std::string& name : interfaces) {
    const int mtu = mtu_of(name.c_str());
    if (mtu <= 0) return fail(ErrorCode::invalid_argument, fmt::format("there is no interface '{}'", name));
    smallest = std::min(smallest, mtu);
  }
  return smallest;
}

}  // namespace passing::net
