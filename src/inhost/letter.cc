#include "inhost/letter.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/bytes.h"
#include "inhost/door.h"
#include "inhost/layout.h"

namespace passing::inhost {
namespace {

constexpr std::size_t kLongest = 4096;
// The kernel passes on at most 253 at a time.
constexpr std::size_t kMostEnclosed = 1 + 2 * kMostRanks;

}  // namespace

Address address_of(const std::string& name) {
  Address result;
  result.address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof result.address.sun_path - 1);
  std::memcpy(result.address.sun_path + 1, name.data(), length);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return result;
}

bool post(int socket, const Letter& letter, const std::vector<int>& enclosed) {
  Writer out;
  out.put(kMagic).put(letter.subject).put(letter.index).put(letter.group).put(letter.known).put(letter.cores);
  out.put(letter.node).put(letter.error.code).put(letter.error.message.substr(0, kLongest / 2));
  out.put(std::uint64_t{letter.error.members.size()});
  for (const std::uint16_t member : letter.error.members) out.put(member);
  std::string data = out.take();

  iovec part{data.data(), data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostEnclosed * sizeof(int))] = {};
  if (!enclosed.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(enclosed.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(enclosed.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), enclosed.data(), enclosed.size() * sizeof(int));
  }
  ssize_t sent = 0;
  // So many descriptors may be on their way at once; those who are to have them are about to take them.
  for (int patience = 2000; patience > 0; --patience) {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent >= 0 || (errno != EINTR && errno != ETOOMANYREFS && errno != EAGAIN)) break;
    if (errno != EINTR) ::usleep(1000);
  }
  return sent == static_cast<ssize_t>(data.size());
}

Expected<Letter> open_letter(int socket) {
  std::string data(kLongest, '\0');
  iovec part{data.data(), data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostEnclosed * sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  // One who closes without having read all is reported before his last words.
  if (got < 0 && errno == ECONNRESET) got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  Letter letter;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); got >= 0 && header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof number);
      letter.enclosed.emplace_back(number);
    }
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return letter;
  if (got <= 0) return fail(ErrorCode::peer_lost, "has died or given up");
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return fail(
        ErrorCode::no_capacity,
        "cannot take the descriptors of the shared memory; raise the limit of descriptors (ulimit -n), "
        "or allow passing them in the security policy (SELinux)");
  }

  data.resize(static_cast<std::size_t>(got));
  std::uint64_t magic = 0;
  std::uint64_t members = 0;
  Reader in(data);
  in.get(magic).get(letter.subject).get(letter.index).get(letter.group).get(letter.known).get(letter.cores);
  in.get(letter.node).get(letter.error.code).get(letter.error.message).get(members);
  letter.error.members.resize(std::min<std::uint64_t>(members, kMostRanks));
  for (std::uint16_t& member : letter.error.members) in.get(member);
  if (!in.whole() || magic != kMagic)
    return fail(ErrorCode::disagreement, "speaks another protocol: install one version on the host");
  return letter;
}

bool readable(const std::vector<int>& sockets, Time deadline) {
  std::vector<pollfd> sources;
  sources.reserve(sockets.size());
  for (const int each : sockets) sources.push_back({each, POLLIN, 0});
  for (;;) {
    const Duration left = std::max<Duration>(0, deadline - now());
    const timespec time{left / kSecond, left % kSecond};
    if (ppoll(sources.data(), sources.size(), &time, nullptr) > 0) return true;
    if (left == 0) return false;
  }
}

Credentials credentials(int socket) {
  ucred other{};
  socklen_t length = sizeof other;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0) return {};
  return {other.uid == geteuid(), other.uid, other.pid};
}

}  // namespace passing::inhost
