#include "net/desk.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/bytes.h"
#include "base/shortage.h"
#include "net/member.h"

namespace passing::net {
namespace {

// A server may be started after the ranks.
constexpr auto kPause = std::chrono::milliseconds(50);
// A server that closes without a word may have taken the rank for a stranger too many: again, for so long.
constexpr Duration kKnocking = 5 * kSecond;
// For a server to say which ranks it is waiting for.
constexpr Duration kExplanation = kSecond;

// Waits until the socket can be read or written. False: too late. What is there already is never too late:
// half a message must not be left behind.
bool wait_for(int descriptor, short what, Time deadline) {
  for (;;) {
    const Duration left = std::max<Duration>(0, deadline - monotonic_now());
    pollfd source{descriptor, what, 0};
    const timespec time{left / kSecond, left % kSecond};
    if (ppoll(&source, 1, &time, nullptr) > 0) return true;
    if (left == 0) return false;
  }
}

Expected<int> connect_once(const SocketAddress& there, Time deadline) {
  const int descriptor = ::socket(there.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    return system_failure(ErrorCode::invalid_argument, "cannot open a socket", errno);
  }
  int error = ::connect(descriptor, there.get(), there.length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    socklen_t length = sizeof error;
    if (wait_for(descriptor, POLLOUT, deadline))
      getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == 0) return descriptor;
  ::close(descriptor);
  return fail(ErrorCode::unreachable, std::strerror(error));
}

// Messages are small: they go out at once.
void say(int descriptor, const std::string& message) {
  const std::string frame = framed(message);
  static_cast<void>(::send(descriptor, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

Expected<std::string> hear(int descriptor, Time deadline) {
  std::string frame;
  std::size_t wanted = 4;
  while (frame.size() < wanted) {
    if (!wait_for(descriptor, POLLIN, deadline)) return fail(ErrorCode::deadline, "does not answer");
    char data[kLongestDeskMessage];
    const ssize_t got = ::recv(descriptor, data, std::min(sizeof data, wanted - frame.size()), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return fail(ErrorCode::peer_lost, "has closed the connection");
    frame.append(data, static_cast<std::size_t>(got));
    if (frame.size() == 4 && wanted == 4) {
      std::uint32_t length = 0;
      std::memcpy(&length, frame.data(), 4);
      if (length > kLongestDeskMessage) return fail(ErrorCode::disagreement, "is no server of this version");
      wanted += length;
    }
  }
  return frame.substr(4);
}

Expected<Answer> hear_answer(int descriptor, Time deadline) {
  const auto message = hear(descriptor, deadline);
  if (!message) return tl::unexpected(message.error());
  auto answer = Answer::decode(*message);
  if (!answer) return fail(ErrorCode::disagreement, "is no server of this version");
  return *answer;
}

Expected<Answer> unless_refused(Expected<Answer> answer) {
  if (answer && answer->type == Answer::Type::refused) return fail(answer->code, answer->text);
  return answer;
}

}  // namespace

std::string framed(const std::string& message) {
  const auto length = static_cast<std::uint32_t>(message.size());
  return Writer().put(length).take() + message;
}

std::string Enrolment::encode() const {
  return Writer()
      .put(version)
      .put(job)
      .put(token)
      .put(name)
      .put(address)
      .put(group)
      .put(rank)
      .put(size)
      .put(pushes)
      .take();
}

std::optional<Enrolment> Enrolment::decode(const std::string& data) {
  Enrolment e;
  std::uint8_t pushes = 0;
  Reader in(data);
  in.get(e.version).get(e.job).get(e.token).get(e.name).get(e.address).get(e.group).get(e.rank).get(e.size);
  in.get(pushes);
  e.pushes = pushes != 0;
  return in.whole() ? std::optional(std::move(e)) : std::nullopt;
}

std::string Answer::encode() const {
  return Writer()
      .put(type)
      .put(code)
      .put(text.substr(0, kLongestDeskMessage / 2))
      .put(address)
      .put(index)
      .put(of)
      .take();
}

std::optional<Answer> Answer::decode(const std::string& data) {
  Answer a;
  Reader in(data);
  in.get(a.type).get(a.code).get(a.text).get(a.address).get(a.index).get(a.of);
  return in.whole() ? std::optional(std::move(a)) : std::nullopt;
}

Enrolled::~Enrolled() {
  for (const Desk& each : desks_) {
    if (each.descriptor < 0) continue;
    ::shutdown(each.descriptor, SHUT_RDWR);  // a fork may still have it
    ::close(each.descriptor);
  }
}

Expected<Enrolled> Enrolled::enrol(const std::vector<std::string>& servers, const Enrolment& own,
                                   Duration timeout, bool quiet) {
  Enrolled made;
  for (const std::string& where : servers) {
    if (std::count(servers.begin(), servers.end(), where) > 1) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("servers has '{}' more than once (PASSING_SERVERS)", where));
    }
    made.desks_.push_back({.where = where});
  }
  const Time deadline = monotonic_now() + timeout;
  auto good = made.all(own, deadline, quiet).and_then([&] { return made.check(); });
  if (!good) {
    // The others must not wait for this rank.
    for (const Desk& each : made.desks_) {
      if (each.descriptor >= 0)
        say(each.descriptor, Answer{.code = good.error().code, .text = good.error().message}.encode());
    }
    return tl::unexpected(good.error());
  }
  for (const Desk& each : made.desks_) say(each.descriptor, Answer{.type = Answer::Type::ready}.encode());
  if (const auto others = made.await_others(own, deadline, quiet); !others)
    return tl::unexpected(others.error());
  made.servers_.resize(made.desks_.size());
  for (const Desk& each : made.desks_) {
    const auto address = parse_numeric_address(each.answer.address);
    if (!address) return tl::unexpected(address.error());
    made.servers_[each.answer.index] = {fmt::format("server {} at {}", each.answer.index, each.where),
                                        *address};
  }
  return made;
}

// Until every server has all ranks.
Expected<void> Enrolled::await_others(const Enrolment& own, Time deadline, bool quiet) const {
  Waiting waiting(own.name, quiet);
  for (const Desk& each : desks_) {
    while (monotonic_now() < deadline &&
           !wait_for(each.descriptor, POLLIN, std::min(deadline, monotonic_now() + kSecond)))
      waiting.look([&] { return fmt::format("all ranks to enrol at the server at {}", each.where); });
    auto ready = hear_answer(each.descriptor, deadline);
    if (!ready && ready.error().code == ErrorCode::deadline) {
      say(each.descriptor, Answer{.type = Answer::Type::late}.encode());
      ready = hear_answer(each.descriptor, monotonic_now() + kExplanation);
    }
    ready = unless_refused(std::move(ready));
    if (!ready) {
      return fail(ready.error().code,
                  fmt::format("server {} at {}: {}", each.answer.index, each.where, ready.error().message));
    }
  }
  return {};
}

// All are asked, also if one is no good: each can then tell the other ranks. The first trouble counts: it may
// have used up the time for what comes after it.
Expected<void> Enrolled::all(const Enrolment& own, Time deadline, bool quiet) {
  Expected<void> result;
  const auto note = [&result](ErrorCode code, std::string sentence) {
    if (result) result = fail(code, std::move(sentence));
  };
  Waiting waiting(own.name, quiet);
  for (Desk& each : desks_) {
    const auto address = parse_address(each.where);
    if (!address) {
      note(address.error().code,
           fmt::format("servers has '{}': {} (PASSING_SERVERS)", each.where, address.error().message));
      continue;
    }
    auto connected = connect_once(*address, deadline);
    while (!connected && connected.error().code == ErrorCode::unreachable && monotonic_now() < deadline) {
      waiting.look(
          [&] { return fmt::format("the server at {}: {}", each.where, connected.error().message); });
      std::this_thread::sleep_for(kPause);
      connected = connect_once(*address, deadline);
    }
    if (!connected) {
      note(connected.error().code, fmt::format("no server at {}: {}; start one there (passing server), or "
                                               "correct PASSING_SERVERS",
                                               each.where, connected.error().message));
      continue;
    }
    each.descriptor = *connected;
    say(each.descriptor, own.encode());
  }
  for (Desk& each : desks_) {
    if (each.descriptor < 0) continue;
    auto answer = unless_refused(hear_first(each, own, deadline));
    if (!answer) {
      note(answer.error().code, fmt::format("the server at {}: {}", each.where, answer.error().message));
      continue;
    }
    each.answer = std::move(*answer);
  }
  return result;
}

// What a server says to the enrolment.
Expected<Answer> Enrolled::hear_first(Desk& desk, const Enrolment& own, Time deadline) {
  const Time until = std::min(deadline, monotonic_now() + kKnocking);
  for (;;) {
    auto answer = hear_answer(desk.descriptor, deadline);
    if (answer || answer.error().code != ErrorCode::peer_lost || monotonic_now() >= until) return answer;
    std::this_thread::sleep_for(kPause);
    const auto connected =
        parse_address(desk.where).and_then([&](const auto& there) { return connect_once(there, until); });
    if (!connected) return answer;
    ::close(std::exchange(desk.descriptor, *connected));
    say(desk.descriptor, own.encode());
  }
}

// Every range of keys must have its server.
Expected<void> Enrolled::check() const {
  const Desk& first = desks_.front();
  for (const Desk& each : desks_) {
    if (each.answer.of != first.answer.of) {
      return fail(
          ErrorCode::disagreement,
          fmt::format("the server at {} counts {} servers, the one at {} counts {}: give all the same "
                      "--of",
                      first.where, first.answer.of, each.where, each.answer.of));
    }
  }
  for (std::uint32_t range = 0; range < std::max<std::size_t>(first.answer.of, desks_.size()); ++range) {
    std::vector<std::string> owners;
    for (const Desk& each : desks_) {
      if (each.answer.index == range) owners.push_back(each.where);
    }
    if (owners.size() == 1) continue;
    if (owners.empty()) {
      return fail(ErrorCode::disagreement,
                  fmt::format("no server for key range {} of {}: {} given (PASSING_SERVERS); start one with "
                              "--index {} --of {}",
                              range, first.answer.of, desks_.size(), range, first.answer.of));
    }
    return fail(ErrorCode::disagreement,
                fmt::format("key range {} of {} has two servers, {} and {}: give each another --index", range,
                            first.answer.of, owners[0], owners[1]));
  }
  return {};
}

}  // namespace passing::net
