#include "server/server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/descriptors.h"
#include "base/printable.h"
#include "base/shortage.h"
#include "base/thread.h"
#include "communicator/settings.h"
#include "net/member.h"
#include "net/proof.h"

namespace passing::server {
namespace {

using Type = net::Answer::Type;

// Whoever says nothing for so long is a stranger.
constexpr Duration kIntroduction = 10 * kSecond;
// So many, beside the ranks of groups that are about to be complete.
constexpr std::size_t kMostStrangers = 64;
constexpr int kAcceptsAtOnce = 64;
constexpr Duration kListeningPause = 100 * kMillisecond;
// A rank's machine that has vanished must not keep the server: it is found out after so many seconds, and 3
// more probes.
constexpr int kKeepIdleSeconds = 10;
constexpr int kKeepIntervalSeconds = 2;
// Groups that were given up, for ranks that come later.
constexpr std::size_t kMostDissolved = 64;
// In a message.
constexpr std::size_t kMostNamed = 8;
// Of what a rank says, in a log.
constexpr std::size_t kLongestReason = 1000;

// What strangers did, or had to bear.
struct Reason {
  std::uint64_t net::Refused::*count;
  const char* what;
};
constexpr Reason kReasons[] = {
    {&net::Refused::garbage, "spoke another protocol"},
    {&net::Refused::other_version, "had another version"},
    {&net::Refused::unproven, "had another token"},
    {&net::Refused::late, "said too little in 10 s"},
    {&net::Refused::too_many, "had to make room for others"},
    {&net::Refused::left, "went before they had enrolled"},
    {&net::Refused::waiting, "had to wait, since there was no descriptor left: raise the limit (ulimit -n)"},
};

// A part of a job (Communicator::split) has its name, a dot and more; or, if it is long, its first half.
bool same_job(const std::string& holder, const std::string& other) {
  if (other == holder || other.starts_with(holder + ".")) return true;
  const std::string half = holder.substr(0, kLongestJob / 2);
  return half.size() == kLongestJob / 2 && other.starts_with(half);
}

void keep_alive(int descriptor) {
  const auto set = [descriptor](int level, int option, int value) {
    setsockopt(descriptor, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

std::string shown(const net::SocketAddress& address) { return net::to_string(address); }

}  // namespace

Expected<std::unique_ptr<ParameterServer>> ParameterServer::start(Options options) {
  raise_descriptor_limit();
  if (!options.log) options.log = [](const std::string&) {};
  std::unique_ptr<ParameterServer> server(new ParameterServer(std::move(options)));
  if (auto listening = server->listen(); !listening) return tl::unexpected(listening.error());
  auto thread = start_thread([raw = server.get()] { raw->run(); });
  if (!thread) return tl::unexpected(thread.error());
  server->thread_ = std::move(*thread);
  return server;
}

ParameterServer::~ParameterServer() {
  if (thread_.joinable()) {
    stop_ = true;
    eventfd_write(wake_, 1);
    thread_.join();
    log_strangers();
  }
  groups_.clear();
  for (const Desk& each : desks_) {
    if (each.descriptor >= 0) ::close(each.descriptor);
  }
  if (listener_ >= 0) ::close(listener_);
  if (wake_ >= 0) ::close(wake_);
}

Expected<void> ParameterServer::listen() {
  const auto broken = [](const std::string& what) {
    return system_failure(ErrorCode::unreachable, what, errno);
  };
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return broken("cannot make an event descriptor");
  address_ = options_.listen;
  listener_ = ::socket(address_.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener_ < 0) return broken("cannot open a TCP socket");
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener_, address_.get(), address_.length) != 0 || ::listen(listener_, SOMAXCONN) != 0)
    return broken("cannot listen at " + shown(address_));
  address_.length = sizeof address_.storage;
  getsockname(listener_, address_.get(), &address_.length);
  return {};
}

void ParameterServer::run() {
  pthread_setname_np(pthread_self(), "passing-desk");
  std::vector<pollfd> sources;
  while (!stop_) {
    sources.assign({{listen_again_ == 0 ? listener_ : -1, POLLIN, 0}, {wake_, POLLIN, 0}});
    for (const Desk& each : desks_) sources.push_back({each.descriptor, POLLIN, 0});
    if (::poll(sources.data(), sources.size(), until_next_look()) < 0) continue;
    std::size_t i = 2;
    for (Desk& each : desks_) {
      if (sources[i++].revents != 0 && !each.closed) read(each);
    }
    look_at_clock();
    if (sources[0].revents != 0) accept_some();
    desks_.remove_if([](const Desk& each) { return each.closed; });
  }
}

void ParameterServer::look_at_clock() {
  const Time now = net::monotonic_now();
  for (Desk& each : desks_) {
    if (!each.rank && !each.closed && now >= each.since + kIntroduction) turn_away(each, &net::Refused::late);
  }
  if (listen_again_ <= now) listen_again_ = 0;
}

int ParameterServer::until_next_look() const {
  Time next = listen_again_ == 0 ? INT64_MAX : listen_again_;
  for (const Desk& each : desks_) {
    if (!each.rank) next = std::min(next, each.since + kIntroduction);
  }
  if (next == INT64_MAX) return -1;
  return static_cast<int>(std::max<Duration>(0, next - net::monotonic_now()) / kMillisecond) + 1;
}

void ParameterServer::accept_some() {
  // Bounded: ranks have their turn in between.
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      keep_alive(descriptor);
      desks_.push_back({.descriptor = descriptor, .since = net::monotonic_now()});
      if (strangers() > most_strangers()) make_room();
      continue;
    }
    if (!is_shortage(errno) || !somebody_waits()) return;
    count(&net::Refused::waiting);
    if (make_room()) continue;
    // It stays in the queue: not at full speed.
    listen_again_ = net::monotonic_now() + kListeningPause;
    return;
  }
}

// Without a descriptor to spare, accept says so even if there is nobody.
bool ParameterServer::somebody_waits() const {
  pollfd source{listener_, POLLIN, 0};
  return ::poll(&source, 1, 0) > 0;
}

std::size_t ParameterServer::strangers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(desks_, [](const Desk& each) { return !each.rank && !each.closed; }));
}

// All ranks of a group may come at once.
std::size_t ParameterServer::most_strangers() const {
  std::size_t most = kMostStrangers;
  for (const auto& [id, group] : groups_) most += group.service ? 0 : group.size;
  return most;
}

// The oldest goes, unless it turns out to be a rank: what it has said may not have been read. False: there is
// none.
bool ParameterServer::make_room() {
  const auto oldest =
      std::ranges::find_if(desks_, [](const Desk& each) { return !each.rank && !each.closed; });
  if (oldest == desks_.end()) return false;
  read(*oldest);
  if (!oldest->rank && !oldest->closed) turn_away(*oldest, &net::Refused::too_many);
  return true;
}

void ParameterServer::read(Desk& desk) {
  char data[net::kLongestDeskMessage];
  const ssize_t got = ::recv(desk.descriptor, data, sizeof data, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return desk.rank ? close(desk, "has gone") : turn_away(desk, &net::Refused::left);
  desk.heard.append(data, static_cast<std::size_t>(got));
  while (!desk.closed && desk.heard.size() >= 4) {
    std::uint32_t length = 0;
    std::memcpy(&length, desk.heard.data(), 4);
    if (length > net::kLongestDeskMessage) {
      return desk.rank ? close(desk, "speaks another protocol") : turn_away(desk, &net::Refused::garbage);
    }
    if (desk.heard.size() < 4 + length) return;
    const std::string message = desk.heard.substr(4, length);
    desk.heard.erase(0, 4 + length);
    on_message(desk, message);
  }
}

void ParameterServer::on_message(Desk& desk, const std::string& message) {
  if (desk.rank) {
    const auto said = net::Answer::decode(message);
    const auto found = groups_.find(desk.rank->group);
    if (!said) return close(desk, "speaks another protocol");
    if (said->type == Type::late && found != groups_.end()) return on_late(found->first, found->second);
    if (said->type != Type::ready || found == groups_.end())
      return close(desk, printable(said->text, kLongestReason), said->code);
    desk.content = true;
    return complete(found->first, found->second);
  }
  auto rank = net::Enrolment::decode(message);
  const auto version = leading_version(message);
  if (!rank && version && *version != PASSING_VERSION_STRING) {
    say(desk, {.text = fmt::format("it is version {}, the rank is {}", PASSING_VERSION_STRING, *version)});
    return turn_away(desk, &net::Refused::other_version);
  }
  if (!rank) return turn_away(desk, &net::Refused::garbage);
  on_enrolment(desk, std::move(*rank));
}

// Why a rank cannot be served, if so.
std::optional<std::string> ParameterServer::why_not(const net::Enrolment& rank) const {
  if (rank.version != PASSING_VERSION_STRING) {
    return fmt::format("it is version {}, {} is {}", PASSING_VERSION_STRING, rank.name,
                       printable(rank.version));
  }
  if (!knows_token(rank)) return "the token is another one: give servers and ranks the same (PASSING_TOKEN)";
  if (rank.size < 2 || rank.size > 65535 - options_.of || rank.rank >= rank.size)
    return fmt::format("rank {} of {} cannot be", rank.rank, rank.size);
  if (!net::parse_numeric_address(rank.address))
    return fmt::format("the address '{}' cannot be read", printable(rank.address));
  if (!groups_.empty() && !same_job(holder_, rank.job)) {
    return fmt::format("it is taken by job '{}' (by {}); wait for its end, or start another server",
                       printable(holder_), groups_.begin()->second.desks.begin()->second->rank->name);
  }
  const auto found = groups_.find(rank.group);
  if (found == groups_.end()) return std::nullopt;
  const Group& group = found->second;
  if (group.size != rank.size || group.service || group.desks.contains(rank.rank))
    return fmt::format("rank {} of job '{}' is there already", rank.rank, printable(rank.job));
  return std::nullopt;
}

// In the same time whatever differs: how long it takes must not tell how much of a guess is right.
bool ParameterServer::knows_token(const net::Enrolment& rank) const {
  return options_.token.empty() || net::is_same(net::key_of(rank.token), net::key_of(options_.token));
}

void ParameterServer::on_enrolment(Desk& desk, net::Enrolment rank) {
  rank.name = printable(rank.name);
  if (const auto why = why_not(rank)) {
    options_.log(fmt::format("job '{}', {}: refused: {}", printable(rank.job), rank.name, *why));
    say(desk, {.text = *why});
    if (rank.version != PASSING_VERSION_STRING) return turn_away(desk, &net::Refused::other_version);
    if (!knows_token(rank)) return turn_away(desk, &net::Refused::unproven);
    return close(desk, *why);
  }
  for (const auto& [id, why] : dissolved_) {
    if (id != rank.group) continue;
    say(desk, why);
    return close(desk, why.text);
  }
  if (groups_.empty()) holder_ = rank.job;
  Group& group = groups_[rank.group];
  group.job = printable(rank.job);
  group.size = rank.size;
  if (!group.mesh) {
    auto mesh = net::Mesh::create(rank.size + options_.index, rank.size + options_.of, address_);
    if (!mesh) {
      groups_.erase(rank.group);
      say(desk, {.text = mesh.error().message});
      return close(desk, mesh.error().message);
    }
    group.mesh = std::move(*mesh);
  }
  group.desks[rank.rank] = &desk;
  desk.rank = std::move(rank);
  // The address that the rank has found us by.
  net::SocketAddress reached;
  reached.length = sizeof reached.storage;
  getsockname(desk.descriptor, reached.get(), &reached.length);
  reached.set_port(group.mesh->socket_address().port());
  say(desk, {.type = Type::accepted, .address = shown(reached), .index = options_.index, .of = options_.of});
}

// If all ranks are there, and content with their servers.
void ParameterServer::complete(std::uint64_t id, Group& group) {
  const bool whole =
      group.desks.size() == group.size && std::all_of(group.desks.begin(), group.desks.end(),
                                                      [](const auto& each) { return each.second->content; });
  if (!whole || group.service) return;
  Service::Group plan{.size = group.size, .index = options_.index, .of = options_.of};
  std::vector<net::SocketAddress> addresses;
  for (const auto& [rank, desk] : group.desks) {
    addresses.push_back(*net::parse_numeric_address(desk->rank->address));
    if (desk->rank->pushes) plan.children.push_back(rank);
  }
  const std::size_t pushing = plan.children.size();
  const net::Key key = net::key_of(group.desks.begin()->second->rank->token);
  group.mesh->introduce(std::move(addresses), id, key);
  auto service = Service::start(std::move(group.mesh), std::move(plan), options_.log);
  if (!service) return dissolve(id, {.code = service.error().code, .text = service.error().message});
  group.service = std::move(*service);
  options_.log(fmt::format("job '{}': serving {} ranks, of which {} push", group.job, group.size, pushing));
  for (const auto& [rank, desk] : group.desks) say(*desk, {.type = Type::ready});
}

// A rank has waited long enough.
void ParameterServer::on_late(std::uint64_t id, const Group& group) {
  if (group.service) return;  // its answer is on its way
  std::string missing;
  std::size_t count = 0;
  for (std::uint32_t r = 0; r < group.size; ++r) {
    if (group.desks.contains(r) || ++count > kMostNamed) continue;
    missing += fmt::format("{}rank {}", count == 1 ? "" : ", ", r);
  }
  if (count > kMostNamed) missing += fmt::format(" and {} more", count - kMostNamed);
  dissolve(id, {.code = ErrorCode::deadline,
                .text = fmt::format("{} of job '{}' did not come here in time: do all ranks have the same "
                                    "PASSING_SERVERS?",
                                    missing, group.job)});
}

// A group will never be complete: whoever waits for it must know, and whoever comes to it later.
void ParameterServer::dissolve(std::uint64_t id, const net::Answer& why) {
  Group& group = groups_.at(id);
  options_.log(fmt::format("job '{}': {}", group.job, why.text));
  for (const auto& [rank, desk] : group.desks) {
    say(*desk, why);
    desk->closed = true;
    ::close(std::exchange(desk->descriptor, -1));
  }
  groups_.erase(id);
  dissolved_.emplace_back(id, why);
  if (dissolved_.size() > kMostDissolved) dissolved_.pop_front();
}

// One without a rank.
void ParameterServer::turn_away(Desk& desk, std::uint64_t net::Refused::*reason) {
  count(reason);
  close(desk, "");
}

void ParameterServer::count(std::uint64_t net::Refused::*reason) {
  if (++(refused_.*reason) > 1) return;
  for (const Reason& each : kReasons) {
    if (each.count == reason) options_.log(fmt::format("at the desk: the first of those that {}", each.what));
  }
}

void ParameterServer::log_strangers() const {
  std::string all;
  for (const Reason& each : kReasons) {
    const std::uint64_t times = refused_.*each.count;
    if (times > 0) all += fmt::format("{}{} {}", all.empty() ? "" : "; ", times, each.what);
  }
  if (!all.empty()) options_.log("at the desk, in all: " + all);
}

void ParameterServer::close(Desk& desk, const std::string& why, ErrorCode code) {
  if (std::exchange(desk.closed, true)) return;
  ::close(std::exchange(desk.descriptor, -1));
  if (!desk.rank) return;
  const auto found = groups_.find(desk.rank->group);
  if (found == groups_.end()) return;
  Group& group = found->second;
  group.desks.erase(desk.rank->rank);
  if (!group.service) {
    const std::string text = fmt::format("{} is not coming: {}", desk.rank->name, why);
    return dissolve(found->first, {.code = code, .text = text});
  }
  if (!group.desks.empty()) return;
  options_.log(fmt::format("job '{}': all {} ranks have left", group.job, group.size));
  groups_.erase(found);
}

// A few hundred bytes: they fit the socket's buffer, or the rank is not reading.
void ParameterServer::say(Desk& desk, const net::Answer& answer) {
  const std::string frame = net::framed(answer.encode());
  static_cast<void>(::send(desk.descriptor, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace passing::server
