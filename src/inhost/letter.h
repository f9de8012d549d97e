// Messages between the ranks of a host while they meet, with descriptors.
#pragma once

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "inhost/descriptor.h"

namespace passing::inhost {

/// An abstract address.
struct Address {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};
Address address_of(const std::string& name);

enum class Subject : std::uint32_t {
  hello = 1,  ///< to the first rank, with the sender's bell
  memory,     ///< to all, with the memory, and everyone's bell and process
  mapped,     ///< back
  begin,      ///< to all: everyone has it
  trouble,    ///< either way: it will not be
};

struct Letter {
  Subject subject = Subject::trouble;
  std::uint32_t index = 0;  ///< hello: of the sender
  std::uint64_t group = 0;  ///< hello
  std::uint64_t known = 0;  ///< memory: a bit for each rank whose process is among the enclosed
  cpu_set_t cores{};        ///< hello: where the sender may run; memory: the receiver's Placement
  std::int32_t node = -1;   ///< memory: the same
  Error error{ErrorCode::peer_lost, {}, {}};  ///< trouble
  std::vector<Descriptor> enclosed;
};

/// Messages are small: they go out at once. False: the other side is gone.
bool post(int socket, const Letter& letter, const std::vector<int>& enclosed = {});
/// Nothing has come: subject is trouble and the message empty.
Expected<Letter> open_letter(int socket);
/// Waits until a socket can be read. False: too late.
bool readable(const std::vector<int>& sockets, Time deadline);
/// Whether the other side runs as the same user; its process.
struct Credentials {
  bool same_user = false;
  std::uint32_t user = 0;
  int process = 0;
};
Credentials credentials(int socket);

}  // namespace passing::inhost
