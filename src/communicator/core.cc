#include "communicator/core.h"

#include <fmt/format.h>

#include <algorithm>

#include "communicator/farewell.h"
#include "net/member.h"

namespace passing {
namespace {

// Calls that may be under way without having been announced. In a host neighbours see what each one calls.
constexpr std::size_t kAnnouncements = 16;
constexpr std::size_t kAnnouncementsInHost = 512;
// Who looks for messages again and again looks at control every so many turns.
constexpr unsigned kControlTurns = 16;
// Those who wait for shared memory look at sockets so often.
constexpr Duration kNap = kMillisecond;
// The carrier and control are the first sources of a wait; those of the strategy follow.
constexpr std::size_t kCarrierSource = 0;
constexpr std::size_t kControlSource = 1;
constexpr std::size_t kOwnSources = 2;

// Short: needs no memory.
Error no_memory() { return {ErrorCode::no_capacity, "no memory", {}}; }

}  // namespace

Core::Core(std::unique_ptr<Group> group, std::unique_ptr<Witness> witness, Mailbox& mailbox)
    : group_(std::move(group)),
      witness_(std::move(witness)),
      mailbox_(mailbox),
      runner_(*group_, *witness_),
      points_(*group_, *witness_) {
  witness_->ask({.describe = [this](std::uint64_t number) { return runner_.describe(number); },
                 .waiting_for = [this] { return runner_.waiting_for(); },
                 .on_left = [this](std::uint32_t /*rank*/) { points_.on_left(); }});
}

Strangers Core::strangers() const {
  return {group_->carrier ? group_->carrier->refused() : net::Refused{},
          group_->control ? group_->control->refused() : net::Refused{}};
}

void Core::turn(bool post, std::span<const pollfd> sources) {
  take_post(post);
  if (group_->strategy) group_->strategy->progress(sources.subspan(std::min(kOwnSources, sources.size())));
  if (group_->carrier && (sources.empty() || sources[kCarrierSource].revents != 0)) {
    group_->carrier->progress();
    witness_->hear_data();
  }
  const bool control_came =
      sources.empty() ? ++turns_ % kControlTurns == 0 : sources[kControlSource].revents != 0;
  if (group_->control && control_came) {
    group_->control->progress();
    witness_->hear_control();
  }
  runner_.run();
  // What writing has found out makes no source readable.
  if (group_->carrier && group_->carrier->has_lost()) witness_->hear_data();
  if (group_->control && group_->control->has_lost()) witness_->hear_control();
  check_time();
  points_.check();
}

void Core::take_post(bool readable) {
  Mailbox::Post post = mailbox_.take(readable);
  // What cannot be taken any more for want of memory must still end: once the carrier is gone, which may have
  // been told of the first one's buffer.
  struct Rest {
    std::vector<StatePtr>& states;
    std::vector<StatePtr>& untaken;
    std::size_t taken = 0;
    ~Rest() {
      if (taken == states.size()) return;
      states.erase(states.begin(), states.begin() + static_cast<std::ptrdiff_t>(taken));
      untaken.swap(states);
    }
  } rest{post.submitted, untaken_};
  for (const StatePtr& state : post.submitted) {
    if (state->what != Operation::State::What::collective) {
      points_.begin(state);
      ++rest.taken;
      continue;
    }
    runner_.add(state);
    ++rest.taken;
    if (!group_->carrier) continue;
    witness_->called(state->call);
    const bool in_host = group_->strategy->stays_in_host(state->call);
    if (witness_->unannounced() >= (in_host ? kAnnouncementsInHost : kAnnouncements)) witness_->announce();
  }
  for (const StatePtr& state : post.cancelled) on_cancelled(state);
}

void Core::on_cancelled(const StatePtr& state) {
  if (state->ended.load(std::memory_order_acquire)) return;
  const Error error{ErrorCode::cancelled,
                    fmt::format("{} was cancelled by {}", state->describe(), group_->own_name()),
                    {group_->own_id()}};
  if (!points_.cancel(state, error)) witness_->fail(error);
}

void Core::check_time() {
  if (failed()) return;
  const Time now = net::monotonic_now();
  points_.check_time(now);
  runner_.check_time(now);
  witness_->step(now);
  witness_->heed();
}

// What a turn would do now, without anything having come. A thread that waits for its own operation may have
// taken another's out of the post, and must not sleep on it.
bool Core::has_work() const {
  if (runner_.has_work() || points_.some_ended()) return true;
  return (group_->carrier && group_->carrier->has_lost()) || (group_->control && group_->control->has_lost());
}

Time Core::next_wake() const {
  Time next = std::min({witness_->next_timer(), points_.next_wake(), runner_.next_wake()});
  if (group_->strategy) next = std::min(next, group_->strategy->next_timer().value_or(INT64_MAX));
  return next;
}

Duration Core::prepare(std::vector<pollfd>& sources) {
  witness_->announce();
  sources.push_back({group_->carrier ? group_->carrier->descriptor() : -1, POLLIN, 0});
  sources.push_back({group_->control ? group_->control->descriptor() : -1, POLLIN, 0});
  if (group_->strategy) group_->strategy->wait_on(sources);
  const bool nothing_came = !group_->carrier || group_->carrier->arm();
  if (group_->control) group_->control->flush();
  // Writing may have ended transfers, or found that a peer has gone.
  const Time next = !nothing_came || has_work() ? 0 : next_wake();
  return next == INT64_MAX ? INT64_MAX : std::max<Duration>(0, next - net::monotonic_now());
}

bool Core::work_in_host() {
  take_post(false);
  if (!group_->strategy || !points_.empty() || witness_->is_troubled() || runner_.empty() ||
      !runner_.stays_in_host())
    return false;
  begin_in_host();
  if (runner_.is_running() && !failed()) {
    group_->strategy->work_in_host(kNap);
    runner_.run();
  }
  return true;
}

// As turn() does, but sockets only if there are announcements to be sent.
void Core::begin_in_host() {
  if (!group_->control->all_sent()) {
    group_->control->progress();
    witness_->hear_control();
  }
  runner_.run();
}

void Core::look(bool around) {
  const auto waits_for = runner_.waits_for();
  if (around || !group_->carrier || !waits_for || (group_->strategy && group_->strategy->has_sources()))
    return turn(false, {});
  if (!group_->carrier->glance(*waits_for)) return;
  witness_->hear_data();
  runner_.run();
}

void Core::begin() {
  take_post(false);
  if (group_->strategy && runner_.next_stays_in_host()) return begin_in_host();
  turn(false, {});
}

void Core::on_exception(const std::exception& problem) {
  // A collective that has thrown has let go of its memory, into which messages were to come.
  group_->carrier.reset();
  try {
    witness_->fail({ErrorCode::no_capacity,
                    fmt::format("{}: {}; give it more memory", group_->own_name(), problem.what()),
                    {group_->own_id()}});
  } catch (const std::exception&) {
    witness_->set_failure(no_memory());
  }
}

// What has not ended fails, here and everywhere.
void Core::come_to_a_verdict() {
  if (!failed() && !witness_->has_proposal()) take_post(true);  // else it ends with all the rest
  if (!failed()) witness_->announce();                          // before the farewell
  if (!failed() && !runner_.empty()) {
    witness_->fail({ErrorCode::cancelled,
                    fmt::format("{} has closed its communicator before the end of {}", group_->own_name(),
                                runner_.oldest()->describe()),
                    {group_->own_id()}});
  }
  if (!failed() && witness_->has_proposal()) witness_->await_decision();
}

void Core::finish() {
  static_cast<void>(guarded([this] { come_to_a_verdict(); }));
  if (!failed() && (witness_->has_proposal() || !runner_.empty())) witness_->set_failure(no_memory());
  Farewell farewell(*group_, *witness_, runner_, points_, mailbox_, untaken_);
  try {
    if (failed()) {
      farewell.fail(*witness_->failure());
    } else {
      farewell.leave();
    }
  } catch (const std::exception&) {
    farewell.end_without_memory(no_memory());
  }
}

}  // namespace passing
