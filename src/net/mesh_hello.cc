// How two meshes meet: each shows that it belongs to the group before anything else is said. docs/mesh.md.
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "net/mesh_connection.h"
#include "net/waiting.h"

namespace passing::net {
namespace {

// Whoever is not let in dials again after a pause, for so long in all.
constexpr Duration kKnockAgain = 20 * kMillisecond;
constexpr Duration kKnocking = 5 * kSecond;

constexpr std::uint64_t version_and(std::uint32_t rank) {
  return std::uint64_t{FrameHeader::kVersion} << 32 | rank;
}

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What a hello or a call brings with it.
struct Greeting {
  Nonce nonce;
  Proof proof;
};

constexpr std::size_t expected_bytes(FrameType type) {
  switch (type) {
    case FrameType::challenge: return sizeof(Nonce);
    case FrameType::hello:
    case FrameType::call: return sizeof(Greeting);
    case FrameType::welcome: return sizeof(Proof);
    default: return 0;
  }
}

}  // namespace

// The first word on an accepted connection.
void Mesh::challenge(Connection& connection) {
  connection.stage = Connection::Stage::hello;
  connection.meeting = {.of_acceptor = new_nonce(), .acceptor = rank_};
  greet(connection, FrameType::challenge, 0, &connection.meeting.of_acceptor, sizeof(Nonce));
}

void Mesh::greet(Connection& connection, FrameType type, std::uint64_t id, const void* data,
                 std::size_t bytes) {
  append(connection.greeting, FrameHeader{.type = type, .tag = version_and(rank_), .id = id, .bytes = bytes});
  connection.greeting.append(static_cast<const char*>(data), bytes);
  touch(connection);
}

// False: there is more of it than the connection takes now, or it broke.
bool Mesh::write_greeting(Connection& connection) {
  while (!connection.greeting.empty()) {
    const ssize_t sent = ::send(connection.descriptor, connection.greeting.data(), connection.greeting.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) broke_off(connection, errno);
    if (sent < 0) return false;
    connection.greeting.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

void Mesh::on_greeting_header(Connection& connection) {
  using Stage = Connection::Stage;
  const FrameHeader& header = connection.header;
  const FrameType type = header.type;
  const bool in_turn =
      connection.stage == Stage::hello
          ? type == FrameType::hello || type == FrameType::call
          : type == (connection.stage == Stage::challenge ? FrameType::challenge : FrameType::welcome);
  if (header.magic != FrameHeader::kMagic || !in_turn) return bad_frame(connection);
  if (header.tag >> 32 != FrameHeader::kVersion) {
    if (connection.stranger_until != 0) return refuse(connection, &Refused::other_version);
    return lose(connection, "it speaks another version of the protocol");
  }
  if (header.bytes != expected_bytes(type)) return bad_frame(connection);
  // Someone of an earlier group: not one of our peers, so nobody is lost.
  if (connection.stage == Stage::hello && header.id != group_)
    return refuse(connection, &Refused::other_group);
  connection.kept.assign(header.bytes, '\0');
  connection.in_payload = true;
  connection.payload_bytes = 0;
}

void Mesh::on_greeting(Connection& connection) {
  switch (connection.stage) {
    case Connection::Stage::hello: return on_hello(connection);
    case Connection::Stage::challenge: return on_challenge(connection);
    case Connection::Stage::welcome: return on_welcome(connection);
    case Connection::Stage::open: return;
  }
}

// To the dialler: it answers with a challenge of its own.
void Mesh::on_challenge(Connection& connection) {
  const FrameType first = connection.calling ? FrameType::call : FrameType::hello;
  Meeting& meeting = connection.meeting;
  meeting = {.of_dialler = new_nonce(),
             .acceptor = connection.peer,
             .dialler = rank_,
             .group = group_,
             .purpose = static_cast<std::uint32_t>(first)};
  std::memcpy(&meeting.of_acceptor, connection.kept.data(), sizeof meeting.of_acceptor);
  const Greeting words{meeting.of_dialler, prove(key_, meeting, Side::dialler)};
  connection.stage = Connection::Stage::welcome;
  greet(connection, first, group_, &words, sizeof words);
}

// To the acceptor.
void Mesh::on_hello(Connection& connection) {
  const FrameHeader& header = connection.header;
  const bool calls = header.type == FrameType::call;
  Greeting words;
  std::memcpy(&words, connection.kept.data(), sizeof words);
  const auto peer = static_cast<std::uint32_t>(header.tag);
  Meeting& meeting = connection.meeting;
  meeting.of_dialler = words.nonce;
  meeting.dialler = peer;
  meeting.group = group_;
  meeting.purpose = static_cast<std::uint32_t>(header.type);
  if (!is_same(words.proof, prove(key_, meeting, Side::dialler)))
    return refuse(connection, &Refused::unproven);
  if (peer >= outgoing_.size()) return bad_frame(connection);
  const Connection* before = outgoing_[peer];
  const bool in_order = calls ? peer > rank_ && peer < addresses_.size()
                              : peer < rank_ && (before == nullptr || before->waiting);
  if (!in_order) return bad_frame(connection);
  const Proof proof = prove(key_, meeting, Side::acceptor);
  connection.peer = peer;
  connection.called = calls;
  connection.stage = Connection::Stage::open;
  no_stranger_any_more(connection);
  greet(connection, FrameType::welcome, 0, &proof, sizeof proof);
  if (calls) {
    connection_to(peer);
  } else if (before == nullptr || !before->broken) {
    adopt(connection);
  }  // else it went before this was seen: nothing goes out, but its last words count
}

// To the dialler: whoever it has called has shown who it is. What has waited for that goes out.
void Mesh::on_welcome(Connection& connection) {
  Proof proof;
  std::memcpy(&proof, connection.kept.data(), sizeof proof);
  if (!is_same(proof, prove(key_, connection.meeting, Side::acceptor)))
    return lose(connection, "it does not belong to the group");
  connection.stage = Connection::Stage::open;
  touch(connection);
}

// Error 0: the peer has closed it. Before it is open that says little of the peer: it may have too many
// strangers, or no descriptor left, and could not know who this was. If it is gone, it will not be reached.
void Mesh::broke_off(Connection& connection, int error) {
  const bool dialling =
      connection.stage == Connection::Stage::challenge || connection.stage == Connection::Stage::welcome;
  const char* reason = error == 0 ? "it has closed the connection" : std::strerror(error);
  if (dialling && (error == 0 || error == ECONNRESET || error == EPIPE))
    return dial_again(connection, reason);
  lose(connection, reason);
}

void Mesh::dial_again(Connection& connection, const std::string& reason) {
  const Time now = monotonic_now();
  if (connection.sent_away_at == 0) connection.sent_away_at = now;
  if (now - connection.sent_away_at >= kKnocking) {
    return lose(connection,
                fmt::format("it has not let this rank in for {} s: {}", kKnocking / kSecond, reason));
  }
  redials_.push_back(&connection);
  connection.dial_at = now + kKnockAgain;
  close_socket(connection);
  connection.connecting = true;
  connection.watching_output = false;
  connection.greeting.clear();
  connection.stashed = connection.header_bytes = 0;
  connection.in_payload = false;
  set_timer();
}

}  // namespace passing::net
