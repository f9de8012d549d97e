// What goes wrong in a group, as it comes to the judge and from him: docs/faults.md.
#include <fmt/format.h>

#include <algorithm>

#include "communicator/engine.h"
#include "inhost/host.h"
#include "net/member.h"

namespace passing {
namespace {

// To get the word out that this rank leaves, and to hear that others do.
constexpr Duration kFarewell = 500 * kMillisecond;
// To get it out at all, where nothing holds it up.
constexpr Duration kGreeting = 50 * kMillisecond;
// Until every neighbour knows of a failure.
constexpr Duration kAllKnow = 500 * kMillisecond;
// A judge comes to a decision within this time.
constexpr Duration kDecision = 2 * kSecond;

// Whether nothing else can explain it. The switch and the host know who is missing, disagrees or has gone,
// but not why.
bool is_certain(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::no_capacity;
}

}  // namespace

void Engine::make_judge() {
  judge_ = std::make_unique<judge::Judge>(
      judge::Judge::Group{.rank = config_.rank,
                          .size = config_.size,
                          .names = names_,
                          .describe = [this](std::uint64_t number) { return describe(number); },
                          .waiting_for = [this] { return waiting_for(); }});
}

// The oldest operation, as the judge counts them.
std::string Engine::describe(std::uint64_t number) const {
  if (number < kFoundingSteps) return number == 0 ? "sharing memory" : "joining the switch or its servers";
  const StatePtr* state = !running_.empty() ? &running_.front()->state
                          : !queue_.empty() ? &queue_.front()
                                            : nullptr;
  return state != nullptr ? (*state)->describe() : fmt::format("operation {}", number - kFoundingSteps);
}

std::vector<std::uint16_t> Engine::waiting_for() const {
  std::vector<std::uint16_t> ranks;
  if (running_.empty()) return ranks;
  for (const std::uint32_t rank : running_.front()->context->waiting_for()) ranks.push_back(id(rank));
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

void Engine::tell(std::uint32_t neighbour, const Control& control) {
  control_->send_urgent(neighbour, strategy::tags::kControl | config_.rank, control.encode());
}

// Messages first: they may explain why a connection has gone.
void Engine::hear_control() {
  while (auto message = control_->take(strategy::tags::kControl, strategy::tags::kClassMask)) {
    const auto control = Control::decode(message->data);
    const std::uint32_t from = strategy::tags::source(message->tag);
    if (control && from < config_.size) on_control(from, *control);
  }
  if (const auto& fault = control_->fault())
    fail_group(
        {fault->code, fmt::format("{}: {}", names_[config_.rank], fault->message), {id(config_.rank)}});
  for (const net::LostPeer& lost : control_->take_lost())
    judge_->lost(net::monotonic_now(), lost.rank, lost.reason, judge::Judge::Link::control);
  heed_judge();
}

// On the connections for data.
void Engine::hear() {
  while (auto message = carrier_->take(strategy::tags::kControl, strategy::tags::kClassMask)) {
    const auto control = Control::decode(message->data);
    const std::uint32_t from = strategy::tags::source(message->tag);
    if (control && from < config_.size && control->type == Control::Type::leave) on_left(from);
  }
  if (const auto& fault = carrier_->fault())
    fail_group(
        {fault->code, fmt::format("{}: {}", names_[config_.rank], fault->message), {id(config_.rank)}});
  note_lost();
  heed_judge();
}

void Engine::note_lost() {
  for (const net::LostPeer& lost : carrier_->take_lost()) {
    const Time now = net::monotonic_now();
    if (lost.rank >= config_.size) {
      const std::string text = fmt::format("{} is lost: {}", names_[lost.rank], lost.reason);
      judge_->problem(now, {ErrorCode::peer_lost, text, {}}, false);
    } else if (!left_[lost.rank]) {
      judge_->lost(now, lost.rank, lost.reason, judge::Judge::Link::data);
    }
  }
}

void Engine::on_control(std::uint32_t from, const Control& control) {
  switch (control.type) {
    case Control::Type::announce:
      ledger_.announced_by_left({control.signature, control.counts, control.number});
      compare_calls();
      break;
    case Control::Type::news: judge_->hear(net::monotonic_now(), from, control.text); break;
    case Control::Type::ready:
      if (control.number >> 8 > 0 && control.number >> 8 < ready_.size())
        ready_[control.number >> 8] |= std::uint64_t{1} << (control.number & 63);
      break;
    case Control::Type::leave: break;
  }
}

void Engine::compare_calls() {
  const auto difference = ledger_.compare();
  if (!difference) return;
  const std::uint32_t left = (config_.rank + config_.size - 1) % config_.size;
  fail_group(
      {ErrorCode::disagreement,
       fmt::format("operation {}: {} called {}{}, {} called {}{}", difference->number, names_[left],
                   difference->theirs.signature.describe(), difference->theirs.counts, names_[config_.rank],
                   difference->mine.signature.describe(), difference->mine.counts),
       {id(left), id(config_.rank)}});
}

// What it has sent has come: nothing more will.
void Engine::on_left(std::uint32_t rank) {
  left_[rank] = true;
  for (Point& each : points_) {
    if (each.state->what == Operation::State::What::recv && gone(each.state->peer) && !each.given_up)
      give_up_on_left(each);
  }
}

void Engine::give_up_on_left(Point& point) {
  const std::uint32_t rank = point.state->peer;
  point.given_up = Error{ErrorCode::peer_lost,
                         fmt::format("{}: {} has left", point.state->describe(),
                                     rank == kAnySource ? "every other rank" : names_[rank]),
                         members(rank)};
  point.given_up_at = net::monotonic_now();
  carrier_->cancel(point.transfer);
}

// A message of another operation, or one that cannot be sent. Usually something better is under way: an
// announcement that disagrees, a failure, a farewell.
void Engine::on_broken_transfer(const StatePtr& state, const net::Transfer& transfer) {
  using Status = net::Transfer::Status;
  if (transfer.status == Status::cancelled) return;  // by us
  const bool lost = transfer.status == Status::failed;
  // The connection is gone: the judge knows by now, unless its rank has left, or is a server.
  if (lost) note_lost();
  if (lost && transfer.peer < config_.size && !left_[transfer.peer]) return;
  std::string what = lost ? "is lost" : "called another operation";
  std::vector<std::uint16_t> who{id(transfer.peer)};
  if (transfer.status == Status::wrong_length) {
    // A piece that is too long tells no more.
    what = fmt::format("sent {} bytes{} where {} expected {}: do the counts of all ranks agree?",
                       transfer.before + transfer.bytes, transfer.bytes > transfer.expected ? " or more" : "",
                       names_[config_.rank], transfer.whole > 0 ? transfer.whole : transfer.expected);
    who.push_back(id(config_.rank));
  }
  judge_->problem(net::monotonic_now(),
                  {lost ? ErrorCode::peer_lost : ErrorCode::disagreement,
                   fmt::format("{}: {} {}", state->describe(), names_[transfer.peer], what), std::move(who)},
                  false);
}

void Engine::on_problem(const StatePtr& state, Error error) {
  error.message = fmt::format("{}: {}", state->describe(), error.message);
  const bool certain = is_certain(error.code);
  judge_->problem(net::monotonic_now(), std::move(error), certain);
}

void Engine::on_cancelled(const StatePtr& state) {
  if (state->ended.load(std::memory_order_acquire)) return;
  const Error error{ErrorCode::cancelled,
                    fmt::format("{} was cancelled by {}", state->describe(), names_[config_.rank]),
                    {id(config_.rank)}};
  if (state->what == Operation::State::What::recv) {
    for (Point& each : points_) {
      if (each.state != state || each.given_up) continue;
      each.given_up = error;
      each.given_up_at = net::monotonic_now();
      carrier_->cancel(each.transfer);
    }
    return;
  }
  fail_group(error);
}

void Engine::check_time() {
  if (failure_) return;
  const Time now = net::monotonic_now();
  for (Point& each : points_) {
    const Operation::State& state = *each.state;
    if (each.given_up) {
      // It could not be taken back: a message is under way and does not come to an end.
      if (now < each.given_up_at + kSecond || judge_->has_proposal()) continue;
      Error error = *each.given_up;
      error.message = fmt::format("{}: {}", names_[config_.rank], error.message);
      fail_group(std::move(error));
      break;
    }
    if (now < state.call.deadline) continue;
    each.given_up = Error{ErrorCode::deadline,
                          fmt::format("{}: waiting for {} since {:.1f} s", state.describe(),
                                      name_of(state.peer), static_cast<double>(now - state.begun) / kSecond),
                          members(state.peer)};
    each.given_up_at = now;
    carrier_->cancel(each.transfer);
  }
  if (strategy_ && now >= expires_) {
    expires_ = INT64_MAX;
    strategy_->expire();
  }
  step_judge(now);
  heed_judge();
}

// What has come is heard before anyone is called silent.
void Engine::step_judge(Time now) {
  if (now < judge_->next_timer()) return;
  if (control_) {
    control_->progress();
    hear_control();
  }
  judge_->step(net::monotonic_now());
}

// Needs no other explanation. This may be called from within a collective.
void Engine::fail_group(Error error) { judge_->problem(net::monotonic_now(), std::move(error), true); }

// Passes on what the judge has to say, and does what he has decided.
void Engine::heed_judge() {
  while (auto message = judge_->next_message())
    tell(message->to, {.type = Control::Type::news, .text = std::move(message->data)});
  if (const auto& decision = judge_->decision(); decision && !failure_) failure_ = decision->error;
}

// Something is wrong, and this rank is about to end: all shall know the same reason.
void Engine::await_decision() {
  const auto decided = [this] {
    judge_->step(net::monotonic_now());
    heed_judge();
    return failure_.has_value();
  };
  if (control_) {
    settle(kDecision, decided);
  } else {
    static_cast<void>(decided());
  }
}

// Lets go of all buffers, ends the operations, then stays until all neighbours know why.
void Engine::end_all(const Error& error) {
  mailbox_->close(error);
  check_points();
  if (host_) host_->cancel();  // a neighbour that was stopped must not write into what is used anew
  if (strategy_) strategy_->abandon(error);
  ground_.ready.clear();
  carrier_.reset();
  end_operations(error);
  if (control_) settle(kAllKnow, [this] { return judge_->all_know() && control_->sends_pending() == 0; });
  control_.reset();
  strategy_.reset();  // tells the controller, which may take a while: nobody waits for that any more
}

// The same for who has not even the memory to say so: others see the connections go.
void Engine::end_without_memory() {
  const Error error{ErrorCode::no_capacity, "no memory", {}};  // short: needs none
  mailbox_->close(error);
  if (host_) host_->cancel();
  try {
    if (strategy_) strategy_->abandon(error);
  } catch (const std::exception&) {
    // It lets go of buffers when it is destroyed.
  }
  ground_.ready.clear();
  carrier_.reset();
  control_.reset();
  end_operations(error);
  strategy_.reset();
}

// Needs no memory. No buffer of theirs is used any more.
void Engine::end_operations(const Error& error) {
  const auto end = [&error](const StatePtr& state) {
    if (!state->ended) state->fail_with(error);
  };
  for (const auto& each : running_) end(each->state);
  for (const StatePtr& each : queue_) end(each);
  for (const Point& each : points_) end(each.state);
  for (const StatePtr& each : untaken_) end(each);
  for (const StatePtr& each : mailbox_->take().submitted) end(each);
  running_.clear();
  queue_.clear();
  points_.clear();
  untaken_.clear();
}

void Engine::leave() {
  // Others first: the switch may take its time.
  if (carrier_) {
    judge_->leave(net::monotonic_now());
    heed_judge();
    for (std::uint32_t r = 0; r < config_.size; ++r) {
      // Also to those that have left: they wait for this.
      if (r != config_.rank && (ground_.contacts[r] || carrier_->connected(r)))
        carrier_->send_urgent(r, strategy::tags::kControl | config_.rank,
                              Control{.type = Control::Type::leave}.encode());
    }
    settle(kGreeting, [this] { return carrier_->sends_pending() == 0 && control_->sends_pending() == 0; });
  }
  if (strategy_) strategy_->leave();
  if (carrier_) {
    // Others usually leave now too; those that do not must not miss what is under way.
    settle(kFarewell, [this] {
      for (std::uint32_t r = 0; r < config_.size; ++r) {
        if (r != config_.rank && !left_[r] && ground_.contacts[r] && !failure_) return false;
      }
      return carrier_->sends_pending() == 0 && control_->sends_pending() == 0;
    });
  }
  const Error closed{ErrorCode::cancelled, "the communicator has been closed", {}};
  check_points();
  strategy_.reset();
  carrier_.reset();
  control_.reset();
  for (const Point& each : points_) each.state->end(tl::unexpected(closed));
  points_.clear();
}

// Works on messages alone, until it is done or the time is over.
void Engine::settle(Duration limit, const std::function<bool()>& done) {
  const Time end = net::monotonic_now() + limit;
  for (;;) {
    control_->progress();
    hear_control();
    if (carrier_) {
      carrier_->progress();
      hear();
    }
    if (done() || net::monotonic_now() >= end) return;
    // What that has sent goes out now, and may have been all there was to wait for.
    control_->flush();
    if (carrier_) carrier_->flush();
    if (done()) return;
    // Now and then `done` says what is waited for.
    const Time until = std::min(end, judge_->next_timer());
    const Duration rest = std::clamp<Duration>(until - net::monotonic_now(), kMillisecond, kSecond);
    pollfd sources[] = {{control_->descriptor(), POLLIN, 0},
                        {carrier_ ? carrier_->descriptor() : -1, POLLIN, 0}};
    const timespec left{rest / kSecond, rest % kSecond};
    ppoll(sources, 2, &left, nullptr);
    step_judge(net::monotonic_now());
    heed_judge();
  }
}

}  // namespace passing
