#include "communicator/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "net/member.h"
#include "strategy/reduce.h"

namespace passing {
namespace {

using strategy::Kind;

// Whether nothing else can explain it. The switch and the host know who is missing, disagrees or has gone,
// but not why.
bool is_certain(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::no_capacity;
}

bool moves_nothing(const strategy::Signature& signature) {
  return signature.count == 0 && signature.shape == 0 && signature.kind != Kind::barrier &&
         signature.kind != Kind::exchange;
}

// Every collective of one rank gives back what it was given.
void run_alone(strategy::Call& call) {
  if (call.input != nullptr && call.bytes() > 0) {
    if (call.signature.type == DataType::boolean && call.signature.reduction != Reduction{}) {
      // But for truth, which is 1.
      strategy::combine(DataType::boolean, Reduction::max, call.input, call.input, call.signature.count,
                        call.output);
    } else if (call.output != call.input) {
      std::memmove(call.output, call.input, call.bytes());
    }
  }
  if (call.signature.kind == Kind::exchange) call.blobs = {call.blob};
}

strategy::Task make_task(strategy::Strategy& strategy, strategy::Context& context, strategy::Call& call) {
  switch (call.signature.kind) {
    case Kind::all_reduce: return strategy.all_reduce(context, call);
    case Kind::broadcast: return strategy::broadcast(context, call);
    case Kind::barrier: return strategy::barrier(context);
    case Kind::exchange: return strategy::exchange(context, call);
    case Kind::reduce: return strategy::reduce(context, call);
    case Kind::reduce_scatter: return strategy::reduce_scatter(context, call);
    case Kind::all_gather: return strategy::all_gather(context, call);
    case Kind::gather: return strategy::gather(context, call);
    case Kind::scatter: return strategy::scatter(context, call);
    case Kind::all_to_all: return strategy::all_to_all(context, call);
  }
  PASSING_ASSERT(false);
  std::abort();
}

}  // namespace

void Runner::run() {
  for (;;) {
    while (!witness_.failure() && running_.size() < kAtOnce && !queue_.empty()) {
      begin(StatePtr(queue_.front()));
      queue_.pop_front();  // if that has thrown, it is still there to be ended
    }
    if (group_.carrier && group_.ground.ready.empty()) group_.carrier->flush();
    if (group_.ground.ready.empty()) return tell_turn();
    resume_ready();
  }
}

bool Runner::has_work() const {
  if (!group_.ground.ready.empty()) return true;
  return !witness_.failure() && !queue_.empty() && running_.size() < kAtOnce;
}

bool Runner::stays_in_host() const {
  for (const auto& each : running_) {
    if (!group_.strategy->stays_in_host(each->state->call)) return false;
  }
  return queue_.empty() || next_stays_in_host();
}

bool Runner::next_stays_in_host() const {
  return !queue_.empty() && group_.strategy->stays_in_host(queue_.front()->call);
}

const Operation::State* Runner::oldest() const {
  if (!running_.empty()) return running_.front()->state.get();
  return queue_.empty() ? nullptr : queue_.front().get();
}

std::optional<std::uint32_t> Runner::waits_for() const {
  if (running_.empty()) return std::nullopt;
  const auto& ranks = running_.front()->context->waiting_for();
  return ranks.empty() ? std::nullopt : std::optional(*ranks.begin());
}

std::vector<std::uint16_t> Runner::waiting_for() const {
  std::vector<std::uint16_t> ranks;
  if (running_.empty()) return ranks;
  for (const std::uint32_t rank : running_.front()->context->waiting_for()) ranks.push_back(Group::id(rank));
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string Runner::describe(std::uint64_t number) const {
  const Operation::State* state = oldest();
  return state != nullptr ? state->describe() : fmt::format("operation {}", number);
}

// The deadline of a collective counts from when all before it have ended.
void Runner::tell_turn() {
  const Operation::State* state = oldest();
  if (state == nullptr) {
    if (std::exchange(turn_, std::nullopt)) witness_.idle();
    expires_ = INT64_MAX;
    return;
  }
  if (turn_ == state->call.number) return;
  turn_ = state->call.number;
  const Time now = net::monotonic_now();
  const bool all_reduce = state->call.signature.kind == Kind::all_reduce;
  expires_ = now + state->timeout;
  witness_.turn({Group::kFoundingSteps + state->call.number, now, expires_,
                 group_.strategy && all_reduce ? group_.strategy->patience(state->call) : 0});
}

void Runner::check_time(Time now) {
  if (now < expires_) return;
  expires_ = INT64_MAX;
  if (group_.strategy) group_.strategy->expire();
}

void Runner::begin(const StatePtr& state) {
  strategy::Call& call = state->call;
  // Strategies that watch it themselves: those that run already have their turns first.
  call.deadline = net::monotonic_now() + state->timeout * static_cast<Duration>(1 + running_.size());
  if (group_.config.size > 1 && !moves_nothing(call.signature)) return begin_task(state);
  run_alone(call);
  state->end({});
}

void Runner::begin_task(const StatePtr& state) {
  auto running = std::make_unique<Running>();
  running->state = state;
  running->context = std::make_unique<strategy::Context>(
      group_.ground, state->call, [this, state](Error error) { on_problem(*state, std::move(error)); },
      [this, state](const net::Transfer& transfer) { on_broken_transfer(*state, transfer); });
  running->task = make_task(*group_.strategy, *running->context, state->call);
  running_.push_back(std::move(running));
  running_.back()->task.start();
  if (!running_.back()->task.done()) {
    // Sends that a strategy has queued go out now, not after the next wait.
    group_.strategy->progress({});
    return;
  }
  running_.pop_back();
  state->end({});
}

void Runner::resume_ready() {
  auto& ready = group_.ground.ready;
  while (!ready.empty() && !witness_.failure()) {
    const auto next = ready.front();
    ready.pop_front();
    next.resume();
  }
  if (witness_.failure()) return ready.clear();
  // First they end, then they go: a listener that throws must leave the list whole.
  for (const auto& each : running_) {
    if (each->task.done() && !each->state->ended) each->state->end({});
  }
  std::erase_if(running_, [](const std::unique_ptr<Running>& each) { return each->task.done(); });
}

void Runner::on_problem(const Operation::State& state, Error error) {
  error.message = fmt::format("{}: {}", state.describe(), error.message);
  const bool certain = is_certain(error.code);
  witness_.problem(std::move(error), certain);
}

// A message of another operation, or one that cannot be sent. Usually something better is under way: an
// announcement that disagrees, a failure, a farewell.
void Runner::on_broken_transfer(const Operation::State& state, const net::Transfer& transfer) {
  using Status = net::Transfer::Status;
  if (transfer.status == Status::cancelled) return;  // by us
  const bool lost = transfer.status == Status::failed;
  // The connection is gone: the judge knows by now, unless its rank has left, or is a server.
  if (lost) witness_.note_lost();
  if (lost && transfer.peer < group_.config.size && !group_.left[transfer.peer]) return;
  std::string what = lost ? "is lost" : "called another operation";
  std::vector<std::uint16_t> who{Group::id(transfer.peer)};
  if (transfer.status == Status::wrong_length) {
    // A piece that is too long tells no more.
    what = fmt::format("sent {} bytes{} where {} expected {}: do the counts of all ranks agree?",
                       transfer.before + transfer.bytes, transfer.bytes > transfer.expected ? " or more" : "",
                       group_.own_name(), transfer.whole > 0 ? transfer.whole : transfer.expected);
    who.push_back(group_.own_id());
  }
  witness_.problem(
      {lost ? ErrorCode::peer_lost : ErrorCode::disagreement,
       fmt::format("{}: {} {}", state.describe(), group_.names[transfer.peer], what), std::move(who)},
      false);
}

void Runner::end_all(const Error& error) {
  PASSING_ASSERT(!group_.carrier);
  // Some may have ended just before something was thrown.
  for (const auto& each : running_) each->state->fail_unless_ended(error);
  for (const StatePtr& each : queue_) each->fail_unless_ended(error);
  running_.clear();
  queue_.clear();
}

}  // namespace passing
