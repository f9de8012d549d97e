// Connections of which the mesh does not know yet who is behind them: bounded in number and time. None of
// them, and no lack of descriptors for them, is the end of a group.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/shortage.h"
#include "net/mesh_connection.h"
#include "net/waiting.h"

namespace passing::net {
namespace {

// Beyond one for each peer: the whole group may come at once.
constexpr std::size_t kMostStrangers = 64;
constexpr Duration kStrangerTime = 5 * kSecond;
constexpr Duration kListeningPause = 100 * kMillisecond;
constexpr int kAcceptsAtOnce = 64;

// Without a descriptor to spare, accept says so even if there is nobody.
bool is_readable(int descriptor) {
  pollfd source{descriptor, POLLIN, 0};
  return ::poll(&source, 1, 0) > 0;
}

// Of the connection that would have been accepted (accept(2) names them): the next may be a good one.
bool is_passing(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case ETIMEDOUT: return true;
    default: return false;
  }
}

}  // namespace

void Mesh::accept_some() {
  // Bounded: peers have their turn in between.
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      if (!take_in(descriptor)) return pause_listening();
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (is_passing(errno)) continue;
    if (!is_shortage(errno)) {
      // A bug: somebody has closed the descriptor, or done something to it.
      own_fault("cannot accept a connection");
      return pause_listening();
    }
    if (!is_readable(listener_)) return;
    ++refused_.waiting;
    if (strangers_.empty()) return pause_listening();
    send_away(*strangers_.front(), &Refused::too_many);
  }
}

// False: the system will not tell what it says, which may pass. A peer comes again.
bool Mesh::take_in(int descriptor) {
  Connection& made = add(descriptor);
  if (!listen_to(made)) {
    ++refused_.waiting;
    hang_up(made);
    return false;
  }
  made.stranger_until = monotonic_now() + kStrangerTime;
  strangers_.push_back(&made);
  challenge(made);
  if (strangers_.size() > kMostStrangers + outgoing_.size())
    send_away(*strangers_.front(), &Refused::too_many);
  return true;
}

void Mesh::refuse(Connection& stranger, std::uint64_t Refused::*reason) {
  ++(refused_.*reason);
  hang_up(stranger);
}

// Unless it is a peer whose words have come, but were not read: this process may have been busy.
void Mesh::send_away(Connection& stranger, std::uint64_t Refused::*reason) {
  read(stranger);
  if (stranger.stranger_until != 0) refuse(stranger, reason);
}

void Mesh::no_stranger_any_more(Connection& connection) {
  if (std::exchange(connection.stranger_until, 0) != 0) std::erase(strangers_, &connection);
}

// Someone waits to be accepted, and the listener would say so again and again.
void Mesh::pause_listening() {
  epoll_ctl(events_, EPOLL_CTL_DEL, listener_, nullptr);
  listen_again_ = monotonic_now() + kListeningPause;
}

void Mesh::resume_listening() {
  listen_again_ = 0;
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (epoll_ctl(events_, EPOLL_CTL_ADD, listener_, &event) != 0)
    listen_again_ = monotonic_now() + kListeningPause;
}

// The timer is one of the mesh's own events, so that who owns the mesh need not know of it.
void Mesh::on_timer() {
  std::uint64_t times = 0;
  if (::read(timer_, &times, sizeof times) == sizeof times) timer_at_ = 0;
}

void Mesh::look_at_clock() {
  if (strangers_.empty() && redials_.empty() && listen_again_ == 0 && timer_at_ == 0) return;
  const Time now = monotonic_now();
  while (!strangers_.empty() && strangers_.front()->stranger_until <= now)
    send_away(*strangers_.front(), &Refused::late);
  while (!redials_.empty() && redials_.front()->dial_at <= now) {
    Connection& next = *redials_.front();
    redials_.erase(redials_.begin());
    next.dial_at = 0;
    connect(next);
  }
  if (listen_again_ != 0 && listen_again_ <= now) resume_listening();
  set_timer();
}

void Mesh::set_timer() {
  Time next = listen_again_;
  const auto sooner = [&next](Time other) { next = next == 0 ? other : std::min(next, other); };
  if (!strangers_.empty()) sooner(strangers_.front()->stranger_until);
  if (!redials_.empty()) sooner(redials_.front()->dial_at);
  if (next == std::exchange(timer_at_, next)) return;
  const itimerspec when{.it_interval = {}, .it_value = {next / kSecond, next % kSecond}};
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace passing::net
