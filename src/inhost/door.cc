#include "inhost/door.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "base/shortage.h"
#include "inhost/letter.h"
#include "inhost/place.h"

namespace passing::inhost {

Time now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

Expected<Door> Door::open() {
  // Neighbours know each other by it: without it this rank would seem to be on another machine.
  if (const auto boot = boot_id(); !boot) return tl::unexpected(boot.error());
  std::uint64_t random[2] = {};
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return fail(ErrorCode::no_capacity, fmt::format("cannot get random numbers: {}", std::strerror(errno)));
  Door door;
  door.name_ = fmt::format("passing-{:016x}{:016x}", random[0], random[1]);
  door.socket_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const Address address = address_of(door.name_);
  if (!door.socket_ || ::bind(door.socket_.get(), address.get(), address.length) != 0 ||
      ::listen(door.socket_.get(), SOMAXCONN) != 0) {
    return system_failure(ErrorCode::no_capacity, "cannot open a Unix socket", errno);
  }
  return door;
}

}  // namespace passing::inhost
