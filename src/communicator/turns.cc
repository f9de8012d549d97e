#include "communicator/turns.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "base/shortage.h"
#include "base/thread.h"
#include "inhost/host.h"
#include "inhost/placement.h"
#include "net/member.h"

namespace passing {
namespace {

// After a thread has waited for an operation, it will probably wait for the next one soon.
constexpr Duration kStandBack = 200 * kMicrosecond;
constexpr Duration kLonger = 2 * kMillisecond;
constexpr Duration kLongest = 10 * kMillisecond;
// Who has submitted a large operation waits for it within this time, or not at all for now.
constexpr Duration kGrace = 50 * kMicrosecond;
// Those who wait for a small operation look for its messages this long before they sleep.
constexpr Duration kLook = 100 * kMicrosecond;
constexpr std::size_t kSmallBytes = 64 << 10;
constexpr unsigned kLookAround = 8;
constexpr std::size_t kMediumBytes = 4 << 20;
constexpr Duration kLongLook = kMillisecond;
// The mailbox and the nudge are the first sources of a wait; those of the core follow.
constexpr std::size_t kPostSource = 0;
constexpr std::size_t kNudgeSource = 1;
constexpr std::size_t kOwnSources = 2;

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

Expected<Nudge> Nudge::create() {
  Nudge made;
  made.descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made.descriptor_ < 0) return system_failure(ErrorCode::no_capacity, "cannot open an eventfd", errno);
  return made;
}

Nudge::~Nudge() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Nudge::give() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(descriptor_, &one, sizeof one));
}

void Nudge::take() const {
  std::uint64_t count = 0;
  static_cast<void>(!::read(descriptor_, &count, sizeof count));
}

Turns::Turns(std::shared_ptr<Mailbox> mailbox, std::unique_ptr<Core> core, Nudge nudge)
    : mailbox_(std::move(mailbox)), core_(std::move(core)), nudge_(std::move(nudge)) {}

Expected<std::unique_ptr<Turns>> Turns::create(std::shared_ptr<Mailbox> mailbox, std::unique_ptr<Core> core,
                                               Nudge nudge) {
  std::unique_ptr<Turns> turns(new Turns(std::move(mailbox), std::move(core), std::move(nudge)));
  auto thread = start_thread([raw = turns.get()] { raw->run(); });
  if (!thread) return tl::unexpected(thread.error());
  turns->thread_ = std::move(*thread);
  return turns;
}

Turns::~Turns() {
  try {
    mailbox_->close({ErrorCode::cancelled, "the communicator has been closed", {}});
  } catch (const std::bad_alloc&) {
    mailbox_->close({ErrorCode::cancelled, "closed", {}});  // short: needs no memory
  }
  if (thread_.joinable()) {
    stop_ = true;
    mailbox_->wake();
    thread_.join();
  }
}

Strangers Turns::strangers() const {
  const MutexLock lock(mailbox_->turns());
  return core_->strangers();
}

void Turns::run() {
  pthread_setname_np(pthread_self(), "passing");
  {
    const MutexLock lock(mailbox_->turns());
    mailbox_->set_worker(this);
    if (const auto& host = core_->group().host) inhost::bind_thread(host->placement());
  }
  std::vector<pollfd> sources;
  while (take_turn(sources)) {
  }
  const MutexLock lock(mailbox_->turns());
  mailbox_->set_worker(nullptr);
  core_->finish();
}

// By the thread. False: it is over.
bool Turns::take_turn(std::vector<pollfd>& sources) {
  const bool attended = !stop_ && (helping_ || net::monotonic_now() - helped_at_ < kStandBack);
  mailbox_->set_attended(attended);
  if (attended) {
    stand_back();
    return true;
  }
  if (!mailbox_->turns().try_lock()) {
    poll_for({}, kStandBack);
    return true;
  }
  Duration time = 0;
  {
    const MutexLock lock(mailbox_->turns(), std::adopt_lock);
    guarded([&] {
      mailbox_->turns().assert_held();
      if (!is_over()) turn(sources);
      if (!is_over()) time = prepare(sources);
    });
    if (is_over()) return false;
    polling_ = true;
  }
  poll_for(sources, time);
  polling_ = false;
  if (sources[kNudgeSource].revents != 0) nudge_.take();
  return true;
}

// Someone else works. The more regularly, and the longer, the less often the thread looks.
void Turns::stand_back() {
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
  // Who has left something over has said so. Else whoever has submitted may be about to wait, and to work.
  if (helped_at_ != 0 && !helping_) poll_for({}, kGrace);
  if (helping_) {
    poll_for({}, kStandBack);  // whoever helps reads it
  } else {
    helped_at_ = 0;
  }
}

void Turns::turn(std::span<const pollfd> sources) {
  const bool post = !sources.empty() && sources[kPostSource].revents != 0;
  core_->turn(post, sources.subspan(std::min(kOwnSources, sources.size())));
}

Duration Turns::prepare(std::vector<pollfd>& sources) {
  sources.clear();
  sources.push_back({mailbox_->descriptor(), POLLIN, 0});
  // Whoever helps must not take what is meant for the thread, which looks at this only there.
  sources.push_back({nudge_.descriptor(), static_cast<short>(helping_ ? 0 : POLLIN), 0});
  return core_->prepare(sources);
}

template <class Body>
void Turns::guarded(const Body& body) {
  if (!core_->guarded(body)) stop_ = true;
}

void Turns::work_until(const Operation::State& state) {
  ++helps_;
  helping_ = true;
  // The thread must not wait with timers of before.
  const bool nudged = polling_;
  if (nudged) nudge_.give();
  guarded([&] {
    mailbox_->turns().assert_held();
    work_for(state);
  });
  hand_back(nudged);
}

void Turns::work_for(const Operation::State& state) {
  std::vector<pollfd> sources;
  unsigned looks = 0;
  Time look_until = 0;
  if (!is_over() && !core_->work_in_host()) turn({});
  while (!state.ended && !is_over()) {
    if (core_->work_in_host()) {
      if (!state.ended) turn({});
    } else if (looks == 0 || net::monotonic_now() < look_until) {
      if (looks == 0) look_until = net::monotonic_now() + time_to_look(state);
      sched_yield();
      core_->look(++looks % kLookAround == 0 || !is_small(state));
    } else {
      const Duration time = prepare(sources);
      poll_for(sources, time);
      turn(sources);
    }
  }
}

void Turns::begin_now(const Operation::State& state) {
  // What others wait for is not this caller's business, and a large one takes time: the thread begins it, if
  // the caller does not wait for it right now.
  if (is_over() || !core_->is_idle() || !is_small(state)) return mailbox_->wake();
  ++helps_;
  helping_ = true;
  guarded([this] {
    mailbox_->turns().assert_held();
    core_->begin();
  });
  helped_at_ = net::monotonic_now();
  helping_ = false;
  if (is_over() || resting_ || polling_) mailbox_->wake();
}

// Something left over is for the thread, at once.
void Turns::hand_back(bool nudged) {
  const bool more = stop_ || !core_->can_rest();
  helped_at_ = more ? 0 : net::monotonic_now();
  helping_ = false;
  if (more || resting_) return mailbox_->wake();
  // One that still waits for everything has the timers of before, and does not know what is unannounced.
  if (polling_ && !nudged) nudge_.give();
}

}  // namespace passing
