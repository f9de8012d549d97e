// Connections of the mesh. What flows through them: mesh_frames.cc.
#include "net/mesh.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptors.h"
#include "base/shortage.h"
#include "net/mesh_connection.h"

namespace passing::net {
namespace {

// A machine that vanishes is found after so long, with data under way or, by five probes, without.
constexpr int kVanishedSeconds = 8;
constexpr int kKeepIdleSeconds = 3;

Expected<void> system_error(const std::string& what) {
  return system_failure(ErrorCode::unreachable, what, errno);
}

void set(int descriptor, int level, int option, int value) {
  setsockopt(descriptor, level, option, &value, sizeof value);
}

void prepare(int descriptor) {
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kVanishedSeconds - kKeepIdleSeconds);
  set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, kVanishedSeconds * 1000);
}

}  // namespace

Expected<std::unique_ptr<Mesh>> Mesh::create(std::uint32_t rank, std::uint32_t size,
                                             const SocketAddress& local) {
  raise_descriptor_limit();
  std::unique_ptr<Mesh> mesh(new Mesh);
  mesh->rank_ = rank;
  mesh->outgoing_.resize(size);
  mesh->events_ = epoll_create1(EPOLL_CLOEXEC);
  if (mesh->events_ < 0) return tl::unexpected(system_error("cannot wait for connections").error());
  mesh->timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = mesh.get()}};
  if (mesh->timer_ < 0 || epoll_ctl(mesh->events_, EPOLL_CTL_ADD, mesh->timer_, &event) != 0)
    return tl::unexpected(system_error("cannot make a timer").error());
  if (auto listening = mesh->listen(local); !listening) return tl::unexpected(listening.error());
  return mesh;
}

Mesh::~Mesh() {
  Mesh::detach();
  if (timer_ >= 0) ::close(timer_);
  if (events_ >= 0) ::close(events_);
}

void Mesh::detach() {
  for (const auto& each : std::exchange(connections_, {})) {
    if (each->descriptor < 0) continue;
    // Closed with something unread, a connection is reset, and may take the last words with it.
    ::shutdown(each->descriptor, SHUT_WR);
    std::array<std::byte, 4096> unread;
    for (int i = 0; i < 64 && ::recv(each->descriptor, unread.data(), unread.size(), MSG_DONTWAIT) > 0;) ++i;
    ::close(each->descriptor);
  }
  strangers_.clear();
  redials_.clear();
  unwritten_.clear();
  // Or who is about to dial again would wait here for an answer.
  if (listener_ >= 0) ::close(std::exchange(listener_, -1));
}

Expected<void> Mesh::listen(const SocketAddress& local) {
  address_ = local;
  address_.set_port(0);
  const std::string where = to_string(address_);
  listener_ = ::socket(address_.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener_ < 0) return system_error("cannot open a TCP socket");
  if (::bind(listener_, address_.get(), address_.length) != 0 || ::listen(listener_, SOMAXCONN) != 0) {
    return system_error(
        fmt::format("cannot listen at {} (PASSING_ADDRESS)", where.substr(0, where.rfind(':'))));
  }
  address_.length = sizeof address_.storage;
  getsockname(listener_, address_.get(), &address_.length);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (epoll_ctl(events_, EPOLL_CTL_ADD, listener_, &event) != 0)
    return system_error("cannot wait for connections");
  return {};
}

void Mesh::introduce(std::vector<SocketAddress> addresses, std::uint64_t group, const Key& key) {
  addresses_ = std::move(addresses);
  group_ = group;
  key_ = key;
}

Expected<void> Mesh::introduce(const std::vector<std::string>& addresses, std::uint64_t group,
                               const Key& key) {
  std::vector<SocketAddress> parsed;
  for (const std::string& each : addresses) {
    const auto address = parse_numeric_address(each);
    if (!address) return tl::unexpected(address.error());
    parsed.push_back(*address);
  }
  introduce(std::move(parsed), group, key);
  return {};
}

Mesh::Connection& Mesh::add(int descriptor) {
  try {
    connections_.emplace_back(std::make_unique<Connection>());
  } catch (...) {
    ::close(descriptor);  // or the peer would take it for a connection that stands
    throw;
  }
  Connection& made = *connections_.back();
  made.descriptor = descriptor;
  return made;
}

// False: the system will not tell what happens on it.
bool Mesh::listen_to(Connection& connection) {
  prepare(connection.descriptor);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &connection}};
  return epoll_ctl(events_, EPOLL_CTL_ADD, connection.descriptor, &event) == 0;
}

// One connection per pair, so that acknowledgements travel with data: the lower rank connects. A higher one
// calls, and what it has for the lower one waits until that has connected.
Mesh::Connection& Mesh::connection_to(std::uint32_t rank) {
  if (outgoing_[rank] != nullptr) return *outgoing_[rank];
  if (rank > rank_) {
    outgoing_[rank] = &dial(rank, FrameType::hello);
    return *outgoing_[rank];
  }
  Connection& waiting = *connections_.emplace_back(std::make_unique<Connection>());
  waiting.peer = rank;
  waiting.connecting = true;
  waiting.waiting = true;
  outgoing_[rank] = &waiting;
  dial(rank, FrameType::call);
  return waiting;
}

Mesh::Connection& Mesh::dial(std::uint32_t rank, FrameType first) {
  Connection& made = *connections_.emplace_back(std::make_unique<Connection>());
  made.peer = rank;
  made.calling = first == FrameType::call;
  connect(made);
  return made;
}

void Mesh::connect(Connection& connection) {
  const SocketAddress& there = addresses_[connection.peer];
  connection.descriptor = ::socket(there.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (connection.descriptor < 0) {
    own_fault("cannot open a connection");
    return lose(connection, "there is no descriptor left for it");
  }
  if (!listen_to(connection)) {
    own_fault("cannot wait for a connection");
    return lose(connection, "the system does not tell what comes from it");
  }
  if (::connect(connection.descriptor, there.get(), there.length) != 0 && errno != EINPROGRESS)
    return lose(connection, std::strerror(errno));
  connection.connecting = true;
  connection.stage = Connection::Stage::challenge;
  touch(connection);
}

// A lower rank has connected: what has waited for that goes out, and a call has been answered.
void Mesh::adopt(Connection& connection) {
  Connection* before = std::exchange(outgoing_[connection.peer], &connection);
  if (before == nullptr) return;
  connection.out = std::exchange(before->out, {});
  connection.bulk = std::exchange(before->bulk, {});
  connection.announced = std::exchange(before->announced, {});
  connection.hoped = std::exchange(before->hoped, {});
  connection.unclaimed = before->unclaimed;
  connection.beyond = std::exchange(before->beyond, {});
  connection.held = std::exchange(before->held, {});
  connection.held_order = std::exchange(before->held_order, {});
  connection.hidden = std::exchange(before->hidden, {});
  connection.hidden_since = std::exchange(before->hidden_since, {});
  connection.next_hidden = before->next_hidden;
  connection.notices = std::exchange(before->notices, {});
  connection.notices_gone = before->notices_gone;
  connection.held_behind = before->held_behind;
  before->broken = true;
  some_broken_ = true;
  for (const auto& each : connections_) {
    if (each->calling && each->peer == connection.peer) hang_up(*each);
  }
  touch(connection);
}

void Mesh::hang_up(Connection& connection) {
  connection.broken = true;
  some_broken_ = true;
  no_stranger_any_more(connection);
  if (std::exchange(connection.dial_at, 0) != 0) std::erase(redials_, &connection);
  close_socket(connection);
}

void Mesh::close_socket(Connection& connection) {
  if (connection.descriptor < 0) return;
  // A fork may still have the socket, and with it the kernel would keep our pointer.
  epoll_ctl(events_, EPOLL_CTL_DEL, connection.descriptor, nullptr);
  ::close(std::exchange(connection.descriptor, -1));
  if (listen_again_ != 0) resume_listening();  // there is a descriptor again
}

// Not a peer's: the system refuses this process something.
void Mesh::own_fault(const char* what) {
  if (!fault_) fault_ = system_error(what).error();
}

// Output is watched only while there is some.
void Mesh::watch(Connection& connection) {
  const bool open = connection.stage == Connection::Stage::open;
  const bool output =
      connection.connecting || !connection.greeting.empty() || (open && connection.has_frames());
  if (connection.broken || connection.descriptor < 0 || output == connection.watching_output) return;
  connection.watching_output = output;
  epoll_event event{.events = EPOLLIN | (output ? std::uint32_t{EPOLLOUT} : 0U),
                    .data = {.ptr = &connection}};
  epoll_ctl(events_, EPOLL_CTL_MOD, connection.descriptor, &event);
}

void Mesh::progress() {
  flush();
  // Bounded: the caller has other things to look at too. What is left is still there next time.
  epoll_event ready[32];
  const int count = epoll_wait(events_, ready, std::size(ready), 0);
  for (int i = 0; i < count; ++i) {
    auto* connection = static_cast<Connection*>(ready[i].data.ptr);
    if (connection == nullptr) {
      accept_some();
      continue;
    }
    if (ready[i].data.ptr == this) {
      on_timer();
      continue;
    }
    // What comes before may have closed it.
    if ((ready[i].events & EPOLLOUT) != 0 && connection->descriptor >= 0) {
      connection->connecting = false;
      write(*connection);
    }
    if ((ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && connection->descriptor >= 0)
      read(*connection);
  }
  look_at_clock();
  flush();
  if (!std::exchange(some_broken_, false)) return;
  // Strangers, and peers that are gone: only what outgoing_ points to is remembered.
  connections_.remove_if([this](const std::unique_ptr<Connection>& each) {
    return each->broken && (each->peer >= outgoing_.size() || outgoing_[each->peer] != each.get());
  });
}

void Mesh::lose(Connection& connection, const std::string& reason) {
  if (connection.broken) return;
  if (connection.stranger_until != 0) return refuse(connection, &Refused::left);
  hang_up(connection);
  if (connection.called) return;
  if (connection.calling) {
    // It will not call back.
    if (Connection* waiting = outgoing_[connection.peer]; waiting->waiting) lose(*waiting, reason);
    return;
  }
  if (std::exchange(connection.holds, false)) --holders_;
  if (connection.peer < outgoing_.size()) lost_.push_back({connection.peer, reason});
  arrived_.erase_if([&](Arrived& each) {
    if (each.connection != &connection) return false;
    each.connection = nullptr;
    return each.announced;
  });
  // Ending a transfer may call back: take everything out first.
  std::vector<TransferPtr> affected;
  for (std::deque<Frame>* queue : {&connection.out, &connection.bulk}) {
    for (Frame& frame : std::exchange(*queue, {})) affected.push_back(std::move(frame.transfer));
  }
  for (auto& [id, transfer] : std::exchange(connection.announced, {})) affected.push_back(transfer);
  for (auto& [tag, transfers] : std::exchange(connection.held, {}))
    affected.insert(affected.end(), transfers.begin(), transfers.end());
  for (auto& each : std::exchange(connection.notices, {})) affected.push_back(each.frame.transfer);
  for (auto& [id, transfer] : std::exchange(connection.expected, {})) affected.push_back(transfer);
  for (auto& [id, transfer] : std::exchange(connection.hoped, {})) {
    if (transfer->promised) affected.push_back(transfer);
  }
  affected.push_back(std::exchange(connection.target, nullptr));
  for (const TransferPtr& each : affected) {
    if (each && !each->ended()) end(*each, Transfer::Status::failed);
  }
}

void Mesh::end(Transfer& transfer, Transfer::Status status) {
  transfer.status = status;
  if (transfer.sending) --sends_;
  if (transfer.on_end) std::exchange(transfer.on_end, nullptr)();
}

void Mesh::cancel(const TransferPtr& transfer) {
  if (posted_.remove(transfer)) end(*transfer, Transfer::Status::cancelled);
}

std::optional<Message> Mesh::take(std::uint64_t tag, std::uint64_t mask) {
  auto found = arrived_.take(tag, mask, [](const Arrived& each) { return !each.announced; });
  if (!found) return std::nullopt;
  give_back(found->connection, found->bytes);
  return Message{.tag = found->tag, .data = std::move(found->data)};
}

}  // namespace passing::net
