// Who does the work: the communicator's thread, or a thread of the user's that has nothing better to do than
// wait for an operation. The latter saves two changes of threads per operation, which is most of a small
// one's time.
//
// Whoever holds Mailbox::turns() may use the engine. The thread stands back as long as someone else has
// worked lately: it looks again every kStandBack, and is woken at once when something is left over.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "communicator/engine.h"
#include "net/member.h"

namespace passing {
namespace {

// After a thread has waited for an operation, it will probably wait for the next one soon.
constexpr Duration kStandBack = 200 * kMicrosecond;
constexpr Duration kLonger = 2 * kMillisecond;
constexpr Duration kLongest = 10 * kMillisecond;
// Those who wait for a small operation look for its messages this long before they sleep.
constexpr Duration kLook = 100 * kMicrosecond;
constexpr std::size_t kSmallBytes = 64 << 10;
constexpr unsigned kLookAround = 8;
constexpr std::size_t kMediumBytes = 4 << 20;
constexpr Duration kLongLook = kMillisecond;
// Those who wait for shared memory look at sockets so often.
constexpr Duration kNap = kMillisecond;

void poll_for(std::span<pollfd> sources, Duration time) {
  const timespec left{time / kSecond, time % kSecond};
  if (ppoll(sources.data(), sources.size(), time == INT64_MAX ? nullptr : &left, nullptr) <= 0) {
    for (pollfd& each : sources) each.revents = 0;
  }
}

std::size_t bytes_of(const Operation::State& state) {
  if (state.what != Operation::State::What::collective) return state.bytes;
  const strategy::Call& call = state.call;
  const std::size_t elements =
      std::max(std::accumulate(call.outgoing.begin(), call.outgoing.end(), std::size_t{0}),
               std::accumulate(call.incoming.begin(), call.incoming.end(), std::size_t{0}));
  return std::max(call.bytes(), elements * size_of(call.signature.type));
}

bool is_small(const Operation::State& state) { return bytes_of(state) <= kSmallBytes; }

Duration time_to_look(const Operation::State& state) {
  if (is_small(state)) return kLook;
  return bytes_of(state) <= kMediumBytes ? kLongLook : 0;
}

}  // namespace

// True when it is over.
bool Engine::work(std::vector<pollfd>& sources) {
  const bool attended = !stop_ && (helping_ || net::monotonic_now() - helped_at_ < kStandBack);
  mailbox_->set_attended(attended);
  if (attended) {
    stand_back();
    return false;
  }
  std::unique_lock lock(mailbox_->turns(), std::try_to_lock);
  if (!lock) {
    poll_for({}, kStandBack);
    return false;
  }
  Duration time = 0;
  guarded([&] {
    if (!stop_ && !failure_) turn(sources);
    if (!stop_ && !failure_) time = prepare(sources);
  });
  if (stop_ || failure_) return true;
  polling_ = true;
  lock.unlock();
  poll_for(sources, time);
  polling_ = false;
  if (sources[2].revents != 0) {
    std::uint64_t count = 0;
    static_cast<void>(!::read(nudge_, &count, sizeof count));
  }
  return false;
}

// Someone else works. The more regularly, and the longer, the less often this thread looks.
void Engine::stand_back() {
  const std::uint64_t helps = helps_;
  if (!helping_ && helps == seen_helps_) {
    standing_back_ = kStandBack;
  } else {
    standing_back_ = std::min(2 * standing_back_, helps == seen_helps_ ? kLongest : kLonger);
  }
  seen_helps_ = helps;
  resting_ = standing_back_ > kLonger;
  pollfd post{mailbox_->descriptor(), POLLIN, 0};
  poll_for({&post, 1}, standing_back_);
  resting_ = false;
  if (post.revents == 0) return;
  if (helping_) {
    poll_for({}, kStandBack);  // whoever helps reads it
  } else {
    helped_at_ = 0;
  }
}

// What a turn would do now, without anything having come. A thread that waits for its own operation may have
// taken another's out of the post, and must not sleep on it.
bool Engine::has_work() const {
  if (!ground_.ready.empty() || (carrier_ && carrier_->has_lost()) || (control_ && control_->has_lost()))
    return true;
  if (!failure_ && !queue_.empty() && running_.size() < kAtOnce) return true;
  return std::ranges::any_of(points_, [](const Point& each) { return each.transfer->ended(); });
}

// Before a wait: announces what must be known by now, and says how long there is nothing to do.
Duration Engine::prepare(std::vector<pollfd>& sources) {
  announce();
  sources.clear();
  sources.push_back({mailbox_->descriptor(), POLLIN, 0});
  sources.push_back({carrier_ ? carrier_->descriptor() : -1, POLLIN, 0});
  // Whoever helps must not take what is meant for the thread, which looks at this only there.
  sources.push_back({nudge_, static_cast<short>(helping_ ? 0 : POLLIN), 0});
  sources.push_back({control_ ? control_->descriptor() : -1, POLLIN, 0});
  if (strategy_) strategy_->wait_on(sources);
  const bool nothing_came = !carrier_ || carrier_->arm();
  if (control_) control_->flush();
  // Writing may have ended transfers, or found that a peer has gone.
  const Time next = !nothing_came || has_work() ? 0 : next_wake();
  return next == INT64_MAX ? INT64_MAX : std::max<Duration>(0, next - net::monotonic_now());
}

void Engine::work_until(const Operation::State& state) {
  ++helps_;
  helping_ = true;
  // The thread must not wait with timers of before.
  const bool nudged = polling_;
  if (nudged) nudge();
  guarded([&] {
    std::vector<pollfd> sources;
    unsigned looks = 0;
    Time look_until = 0;
    if (!stop_ && !failure_ && !work_in_host()) turn({});
    while (!state.ended && !stop_ && !failure_) {
      if (work_in_host()) {
        if (!state.ended) turn({});
      } else if (looks == 0 || net::monotonic_now() < look_until) {
        if (looks == 0) look_until = net::monotonic_now() + time_to_look(state);
        sched_yield();
        look(++looks % kLookAround == 0 || !is_small(state));
      } else {
        const Duration time = prepare(sources);
        poll_for(sources, time);
        turn(sources);
      }
    }
  });
  hand_back(nudged);
}

// If all that is under way needs only shared memory, so does whoever waits for it: sockets are looked at when
// nothing has come for a while. False: there is something else.
bool Engine::work_in_host() {
  take_post(false);
  if (!strategy_ || !points_.empty() || judge_->is_troubled() || (running_.empty() && queue_.empty()))
    return false;
  const auto in_host = [this](const strategy::Call& call) { return strategy_->stays_in_host(call); };
  for (const auto& each : running_) {
    if (!in_host(each->state->call)) return false;
  }
  if (!queue_.empty() && !in_host(queue_.front()->call)) return false;
  begin_in_host();
  if (!running_.empty() && !failure_) {
    strategy_->work_in_host(kNap);
    begin_collectives();
  }
  return true;
}

// As turn() does, but sockets only if there are announcements to be sent.
void Engine::begin_in_host() {
  if (control_->sends_pending() > 0) {
    control_->progress();
    hear_control();
  }
  begin_collectives();
}

// For the message that is waited for; now and then for everything.
void Engine::look(bool around) {
  const auto* waiting = running_.empty() ? nullptr : &running_.front()->context->waiting_for();
  if (around || !carrier_ || waiting == nullptr || waiting->empty() ||
      (strategy_ && strategy_->has_sources()))
    return turn({});
  if (!carrier_->glance(*waiting->begin())) return;
  hear();
  begin_collectives();
}

void Engine::begin_now(const Operation::State& state) {
  // What others wait for is not this caller's business.
  if (!running_.empty() || !queue_.empty() || !points_.empty() || stop_ || failure_) return mailbox_->wake();
  // A large one takes time: whoever has waited lately will probably wait again, or else the thread looks
  // soon.
  if (!is_small(state)) {
    if (polling_) mailbox_->wake();
    return;
  }
  ++helps_;
  helping_ = true;
  guarded([this] {
    take_post(false);
    if (strategy_ && !queue_.empty() && strategy_->stays_in_host(queue_.front()->call)) {
      begin_in_host();
    } else {
      turn({});
    }
  });
  helped_at_ = net::monotonic_now();
  helping_ = false;
  if (failure_ || resting_ || polling_) mailbox_->wake();
}

Engine::Strangers Engine::strangers() const {
  const std::lock_guard lock(mailbox_->turns());
  return {carrier_ ? carrier_->refused() : net::Refused{}, control_ ? control_->refused() : net::Refused{}};
}

void Engine::nudge() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(nudge_, &one, sizeof one));
}

// Something left over is for the thread, at once.
void Engine::hand_back(bool nudged) {
  const bool more =
      stop_ || failure_ || judge_->is_troubled() || !queue_.empty() || !running_.empty() || !points_.empty();
  helped_at_ = more ? 0 : net::monotonic_now();
  helping_ = false;
  if (more || resting_) return mailbox_->wake();
  // One that still waits for everything has the timers of before, and does not know what is unannounced.
  if (polling_ && !nudged) nudge();
}

void Engine::on_exception(const char* what) {
  // What has thrown must not go on: it would end as if nothing had happened.
  stop_ = true;
  // A collective that has thrown has let go of its memory, into which messages were to come.
  carrier_.reset();
  try {
    fail_group({ErrorCode::no_capacity,
                fmt::format("{}: {}; give it more memory", names_[config_.rank], what),
                {static_cast<std::uint16_t>(config_.rank)}});
  } catch (const std::exception&) {
    failure_ = Error{ErrorCode::no_capacity, "no memory", {}};  // short: needs none
  }
}

}  // namespace passing
