#include "net/member.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/thread.h"
#include "net/mtu.h"

namespace passing::net {
namespace {

constexpr std::size_t kReceiveTrains = 16;
// More lanes than the switch has threads, or than cores, cost more than they give.
constexpr std::uint32_t kMostLanes = 4;
// What a window of all lanes holds, in slots and in bytes: by measurement 256 packets of 1500 bytes beat 64
// by a quarter, but 256 of 9000 overrun queues of a megabyte.
constexpr std::uint32_t kWindowSlots = 256;
constexpr std::uint32_t kFewestWindowSlots = 64;
constexpr std::size_t kWindowBytes = 512U << 10;
// For the controller to hear that this member leaves. Someone may be waiting for the end: then not for long.
constexpr Duration kOrderlyFarewell = 5 * kSecond;
constexpr Duration kFarewell = 300 * kMillisecond;
// A heartbeat that has been under way for longer is not answered any more.
constexpr Duration kSlowAnswer = 300 * kMillisecond;

// By number, where there are no names. The controller knows only numbers, which need not be those of ranks.
std::string list(const std::vector<std::uint16_t>& members, const std::vector<std::string>& names) {
  std::string text = names.empty() ? "rank " : "";
  for (std::size_t i = 0; i < members.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += members[i] < names.size() ? names[members[i]] : std::to_string(members[i]);
  }
  return text;
}

void nap(Duration time) { std::this_thread::sleep_for(std::chrono::nanoseconds(time)); }

}  // namespace

Time monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

Expected<std::unique_ptr<Member>> Member::join(const Options& options) {
  std::unique_ptr<Member> member(new Member(options));
  const Time deadline = monotonic_now() + options.join_timeout;
  // Members need not have the numbers of ranks.
  Waiting waiting(list({static_cast<std::uint16_t>(options.rank)}, options.names), options.quiet);
  if (auto found = member->find_switch(deadline, waiting); !found) return tl::unexpected(found.error());
  member->choose_lanes();
  if (auto opened = member->open_sockets(); !opened) return tl::unexpected(opened.error());
  if (auto joined = member->join_job(deadline, waiting); !joined) return tl::unexpected(joined.error());
  return member;
}

// The switch may start after its members.
Expected<void> Member::find_switch(Time deadline, Waiting& waiting) {
  for (Duration pause = 20 * kMillisecond;; pause = std::min(2 * pause, kSecond)) {
    auto description = client_.describe();
    if (description) {
      switch_ = std::move(*description);
      return {};
    }
    const Error& error = description.error();
    if (error.code != ErrorCode::unreachable || monotonic_now() + pause > deadline)
      return tl::unexpected(error);
    waiting.look([&] { return fmt::format("the switch: {}", error.message); });
    nap(pause);
  }
}

Member::~Member() {
  stop_heart();
  // Frees the rank, if it was got. Without memory for that, the lease does.
  try {
    if (membership_.key != 0 && !told_) static_cast<void>(tell_controller(kFarewell));
  } catch (const std::bad_alloc&) {
    told_ = true;
  }
  for (const int descriptor : {wake_, interrupt_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

void Member::stop_heart() {
  if (!heart_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  const std::uint64_t one = 1;
  static_cast<void>(!::write(interrupt_, &one, sizeof one));
  heart_.join();
}

// Not if it would be in vain: then the lease ends. In a hurry, a heartbeat that is slow is enough to know.
Expected<void> Member::tell_controller(Duration limit) {
  told_ = true;
  const Time asked = asked_;
  const bool slow = asked != 0 && monotonic_now() - asked > kSlowAnswer;
  if (!answers_ || (slow && limit == kFarewell)) {
    return fail(ErrorCode::unreachable,
                fmt::format("the controller at {} does not answer", options_.controller));
  }
  const ControllerClient client(options_.controller, {.timeout = limit});
  return client.leave(options_.job, membership_.key, options_.rank);
}

// Every member of a job comes to the same numbers: they follow from the switch alone.
void Member::choose_lanes() {
  if (options_.lanes == 0) {
    // Each thread of the switch has an address of its own, and lane l the one of thread l mod threads.
    std::uint32_t threads = 1;
    while (threads < switch_.lanes.size() &&
           to_protocol(switch_.lanes[threads]) != to_protocol(switch_.lanes[0])) {
      ++threads;
    }
    options_.lanes = std::min(threads, kMostLanes);
  }
  if (options_.slots != 0) return;
  const auto fit = static_cast<std::uint32_t>(kWindowBytes / wire::packet_bytes(switch_.elements));
  const std::uint32_t window = std::clamp(std::bit_floor(fit), kFewestWindowSlots, kWindowSlots);
  options_.slots = std::bit_floor(std::max(1U, window / options_.lanes));
}

Expected<void> Member::open_sockets() {
  if (options_.lanes < 1 || options_.lanes > switch_.lanes.size()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("lanes is {}: must be 1 to {}", options_.lanes, switch_.lanes.size()));
  }
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    SocketAddress any;
    any.storage.ss_family = static_cast<sa_family_t>(switch_.lanes[lane].family());
    any.length = any.family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    auto socket = UdpSocket::open(any, {.segmentation = options_.segmentation});
    if (!socket) return tl::unexpected(socket.error());
    if (auto connected = socket->connect(switch_.lanes[lane]); !connected) return connected;
    const int needed = mtu_for_elements(switch_.elements);
    if (const int mtu = socket->path_mtu(); mtu > 0 && mtu < needed) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format(
              "the path to the switch at {} has MTU {}, but the switch is set to {}: start it with --mtu {}",
              to_string(switch_.lanes[lane]), mtu, switch_.mtu, mtu));
    }
    if (lane == 0 && !socket->buffer_warning().empty()) warnings_.push_back(socket->buffer_warning());
    addresses_.push_back(to_string(socket->local()));
    sockets_.push_back(std::move(*socket));
  }
  return {};
}

Expected<void> Member::join_job(Time deadline, Waiting& waiting) {
  const auto reply = client_.join(options_.job, options_.token, options_.size, options_.rank, options_.lanes,
                                  options_.slots, addresses_, options_.rejoin);
  if (!reply) return tl::unexpected(reply.error());
  membership_ = *reply;
  JobState state;
  return await_members(deadline, waiting, state).and_then([&] { return begin(state); });
}

Expected<void> Member::await_members(Time deadline, Waiting& waiting, JobState& state) {
  for (Duration pause = 5 * kMillisecond;; pause = std::min(2 * pause, 200 * kMillisecond)) {
    auto looked = client_.look(options_.job, membership_.key, options_.rank, true);
    if (!looked) return tl::unexpected(looked.error());
    state = std::move(*looked);
    if (state.phase == JobState::Phase::running) return {};
    if (state.phase == JobState::Phase::ended)
      return fail(ErrorCode::epoch_ended, fmt::format("job '{}' has ended: {}", options_.job, state.reason));
    if (monotonic_now() + pause > deadline) {
      return fail(ErrorCode::deadline,
                  fmt::format("job '{}' is not complete after {:.1f} s; missing: {}", options_.job,
                              static_cast<double>(options_.join_timeout) / kSecond,
                              list(state.missing, options_.names)),
                  state.missing);
    }
    waiting.look([&] {
      return fmt::format("{} to join job '{}' at the switch {}", list(state.missing, options_.names),
                         options_.job, options_.controller);
    });
    nap(pause);
  }
}

Expected<void> Member::begin(const JobState& state) {
  endpoint::Config config{
      .job = membership_.job,
      .epoch = membership_.epoch,
      .key = membership_.key,
      .member = static_cast<std::uint16_t>(options_.rank),
      .members = static_cast<std::uint16_t>(options_.size),
      .tree_members = 0,
      .lanes = options_.lanes,
      .slots = options_.slots,
      .elements = switch_.elements,
      .order = switch_.little_endian ? endpoint::PayloadOrder::little : endpoint::PayloadOrder::big,
      .switch_addresses = {},
      .names = {},
      .grace = options_.grace};
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    config.switch_addresses.push_back(to_protocol(switch_.lanes[lane]));
  }
  for (std::uint32_t rank = 0; rank < options_.size; ++rank) {
    config.names.push_back(rank < options_.names.size()
                               ? options_.names[rank]
                               : fmt::format("rank {} at {}", rank,
                                             rank < state.addresses.size() ? state.addresses[rank] : "?"));
  }
  auto endpoint = endpoint::Endpoint::create(std::move(config));
  if (!endpoint) return tl::unexpected(endpoint.error());
  endpoint_ = std::move(*endpoint);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  interrupt_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0 || interrupt_ < 0) {
    return system_failure(ErrorCode::no_capacity, "cannot open a descriptor", errno);
  }
  auto heart = start_thread([this] { heartbeat(); });
  if (!heart) return tl::unexpected(heart.error());
  heart_ = std::move(*heart);
  return {};
}

endpoint::Completion Member::wait() {
  // What has arrived while the caller did something else counts before any timer.
  if (!endpoint_->idle()) receive_until(0);
  for (;;) {
    send_all();
    if (auto done = endpoint_->next_completion()) return *done;
    receive_until(endpoint_->next_timer().value_or(monotonic_now() + kSecond));
  }
}

Expected<void> Member::leave(Duration timeout) {
  Expected<void> result;
  if (const auto number = endpoint_->leave(monotonic_now() + timeout); number) {
    for (endpoint::Completion done = wait();; done = wait()) {
      if (!done.outcome) result = done.outcome;
      if (done.number == *number) break;
    }
  } else {
    result = tl::unexpected(number.error());
  }
  const auto told = tell_controller(kOrderlyFarewell);
  return result ? told : result;
}

void Member::part(Duration limit) {
  const Time end = monotonic_now() + limit;
  if (const auto number = endpoint_->leave(end); number) {
    bool left = false;
    while (!left && monotonic_now() < end) {
      send_all();
      while (auto done = endpoint_->next_completion()) left = left || done->number == *number;
      if (!left) receive_until(std::min(end, endpoint_->next_timer().value_or(end)));
    }
  }
  static_cast<void>(tell_controller(kFarewell));
}

void Member::send_all() {
  const std::size_t largest =
      wire::packet_bytes(std::max<std::size_t>(switch_.elements, PASSING_REPORT_WORDS));
  for (std::uint32_t lane = 0; lane < sockets_.size(); ++lane) {
    UdpSocket& socket = sockets_[lane];
    const auto flush = [&] {
      if (!train_.empty()) socket.send_train(nullptr, train_.bytes(), train_.packet_size());
      train_.clear();
    };
    const Time now = monotonic_now();
    for (;;) {
      std::byte* out = train_.room(largest);
      if (out == nullptr) {
        flush();
        out = train_.room(largest);
      }
      const std::size_t size = endpoint_->next_packet(now, lane, out);
      if (size == 0) break;
      if (train_.add(size)) continue;
      flush();  // a longer packet begins a new train
      std::copy_n(out, size, train_.room(size));
      train_.add(size);
    }
    flush();
  }
}

void Member::wait_on(std::vector<pollfd>& sources) const {
  for (const UdpSocket& socket : sockets_) sources.push_back({socket.descriptor(), POLLIN, 0});
  sources.push_back({wake_, POLLIN, 0});
}

void Member::progress(std::span<const pollfd> sources) {
  receive(sources);
  send_all();
}

void Member::receive(std::span<const pollfd> sources) {
  for (std::uint32_t lane = 0; lane < sockets_.size(); ++lane) {
    if (!sources.empty() && sources[lane].revents == 0) continue;
    const Time now = monotonic_now();
    sockets_[lane].receive(kReceiveTrains,
                           [&](const UdpSocket::Source& from, std::span<const std::byte> packet) {
                             endpoint_->receive(now, lane, from.address, packet);
                           });
  }
  if (!sources.empty() && sources.back().revents != 0) {
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake_, &count, sizeof count));
    const MutexLock lock(mutex_);
    if (ended_) endpoint_->end_epoch(*ended_);
  }
}

void Member::receive_until(Time limit) {
  std::vector<pollfd> sources;
  wait_on(sources);
  const Duration left = std::max<Duration>(0, limit - monotonic_now());
  const timespec timeout{left / kSecond, left % kSecond};
  if (ppoll(sources.data(), sources.size(), &timeout, nullptr) > 0) receive(sources);
}

// Tells the controller that this member lives, and hears when the epoch is over.
void Member::heartbeat() {
  pthread_setname_np(pthread_self(), "passing-heart");
  const ControllerClient client(options_.controller, {.interrupt = interrupt_});
  Time heard = monotonic_now();
  while (rest()) {
    asked_ = monotonic_now();
    std::optional<Error> ended;
    bool answers = true;
    try {
      const auto state = client.look(options_.job, membership_.key, options_.rank);
      const Time now = monotonic_now();
      answers = state || !unasked(state.error());
      if (state) heard = now;
      ended = state ? end_of(*state) : end_of(client, state.error(), now - heard);
    } catch (const std::bad_alloc&) {
      // Whoever works for this rank meets the same, and says so. It is asked again.
    }
    if (!go_on(std::move(ended))) return;  // asked_ stays: it may have been under way for long
    asked_ = 0;
    answers_ = answers;
  }
}

// False: it is over.
bool Member::rest() {
  const MutexLock lock(mutex_);
  if (!stop_ && !ended_) stopping_.wait_for(mutex_, std::chrono::nanoseconds(options_.heartbeat));
  return !stop_ && !ended_;
}

// False: there is nobody to tell.
bool Member::go_on(std::optional<Error> ended) {
  const MutexLock lock(mutex_);
  if (stop_) return false;
  if (!ended) return true;
  ended_ = std::move(ended);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_, &one, sizeof one));
  return true;
}

std::optional<Error> Member::end_of(const JobState& state) const {
  if (state.phase != JobState::Phase::ended) return std::nullopt;
  if (state.missing.empty() || options_.names.empty())
    return Error{ErrorCode::epoch_ended, state.reason, state.missing};
  return Error{ErrorCode::epoch_ended,
               fmt::format("the switch does not hear of {} any more", list(state.missing, options_.names)),
               state.missing};
}

// The controller has not said how the job is. One that does not answer may do so again.
std::optional<Error> Member::end_of(const ControllerClient& client, const Error& refusal,
                                    Duration silent) const {
  if (unasked(refusal)) {
    if (silent <= options_.silence) return std::nullopt;
    return Error{refusal.code,
                 fmt::format("no answer from the switch for {:.1f} s: {}",
                             static_cast<double>(silent) / kSecond, refusal.message),
                 {}};
  }
  const auto now = client.describe();
  if (!now) return std::nullopt;  // it does not say what it is: asked again with the next heartbeat
  if (now->boot != switch_.boot) {
    return Error{ErrorCode::epoch_ended,
                 fmt::format("the switch at {} has been started anew, and knows nothing of job '{}'",
                             options_.controller, options_.job),
                 {}};
  }
  return Error{ErrorCode::epoch_ended,
               fmt::format("the switch at {} has ended this epoch of job '{}': has the job been started "
                           "again?",
                           options_.controller, options_.job),
               {}};
}

}  // namespace passing::net
