#include "communicator/engine.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/thread.h"
#include "communicator/settings.h"
#include "inhost/host.h"
#include "inhost/placement.h"
#include "net/member.h"
#include "strategy/reduce.h"

namespace passing {
namespace {

// Calls that may be under way without having been announced. In a host neighbours see what each one calls.
constexpr std::size_t kAnnouncements = 16;
constexpr std::size_t kAnnouncementsInHost = 512;
constexpr unsigned kControlTurns = 16;

}  // namespace

Expected<std::unique_ptr<Engine>> Engine::create(Config config) {
  if (auto valid = config.validate(); !valid) return tl::unexpected(valid.error());
  config.strategy = chosen_strategy(config);
  std::unique_ptr<Engine> engine(new Engine(std::move(config)));
  auto mailbox = Mailbox::create();
  if (!mailbox) return tl::unexpected(mailbox.error());
  engine->mailbox_ = std::move(*mailbox);
  engine->nudge_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (engine->nudge_ < 0) {
    return fail(ErrorCode::no_capacity,
                fmt::format("rank {} cannot open an eventfd: {}{}", engine->config_.rank,
                            std::strerror(errno), descriptor_remedy(errno)));
  }
  engine->process_ = getpid();
  if (auto met = engine->meet(); !met) return tl::unexpected(met.error());
  engine->mailbox_->set_worker(engine.get());
  auto thread = start_thread([raw = engine.get()] { raw->run(); });
  if (!thread) return tl::unexpected(thread.error());
  engine->thread_ = std::move(*thread);
  return engine;
}

Engine::~Engine() {
  if (thread_.joinable()) {
    try {
      mailbox_->close({ErrorCode::cancelled, "the communicator has been closed", {}});
    } catch (const std::bad_alloc&) {
      mailbox_->close({ErrorCode::cancelled, "closed", {}});  // short: needs no memory
    }
    stop_ = true;
    mailbox_->wake();
    thread_.join();
  }
  if (nudge_ >= 0) ::close(nudge_);
}

void Engine::run() {
  pthread_setname_np(pthread_self(), "passing");
  if (host_) inhost::bind_thread(host_->placement());

  std::vector<pollfd> sources;
  while (!work(sources)) {
  }
  const std::lock_guard lock(mailbox_->turns());
  mailbox_->set_worker(nullptr);
  guarded([&] {
    if (!failure_ && !judge_->has_proposal()) take_post(true);  // else it ends with all the rest
    if (!failure_) announce();                                  // before the farewell
    if (!failure_ && (!queue_.empty() || !running_.empty())) {
      fail_group({ErrorCode::cancelled,
                  fmt::format("{} has closed its communicator before the end of {}", names_[config_.rank],
                              (running_.empty() ? queue_.front() : running_.front()->state)->describe()),
                  {id(config_.rank)}});
    }
    if (!failure_ && judge_->has_proposal()) await_decision();
  });
  const bool unfinished = judge_->has_proposal() || !queue_.empty() || !running_.empty();
  if (!failure_ && unfinished) failure_ = Error{ErrorCode::no_capacity, "no memory", {}};
  try {
    if (failure_) {
      end_all(*failure_);
    } else {
      leave();
    }
  } catch (const std::exception&) {
    end_without_memory();
  }
}

// Does all that can be done now. `sources` are those of the last wait, or empty.
void Engine::turn(std::span<const pollfd> sources) {
  take_post(!sources.empty() && sources[0].revents != 0);
  if (strategy_) {
    strategy_->progress(sources.size() > kOwnSources ? sources.subspan(kOwnSources)
                                                     : std::span<const pollfd>());
  }
  if (carrier_ && (sources.empty() || sources[1].revents != 0)) {
    carrier_->progress();
    hear();
  }
  // Who looks for messages again and again looks for these now and then.
  if (control_ && (sources.empty() ? ++turns_ % kControlTurns == 0 : sources[3].revents != 0)) {
    control_->progress();
    hear_control();
  }
  begin_collectives();
  if (carrier_ && carrier_->has_lost()) hear();
  check_time();
  check_points();
}

void Engine::take_post(bool readable) {
  Mailbox::Post post = mailbox_->take(readable);
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
      begin_point(state);
      ++rest.taken;
      continue;
    }
    queue_.push_back(state);
    ++rest.taken;
    if (!carrier_) continue;
    ledger_.call({state->call.signature, state->call.describe_counts()});
    judge_->called(kFoundingSteps + ledger_.called());
    compare_calls();
    const bool in_host = strategy_ && strategy_->stays_in_host(state->call);
    if (ledger_.unannounced() >= (in_host ? kAnnouncementsInHost : kAnnouncements)) announce();
  }
  for (const StatePtr& state : post.cancelled) on_cancelled(state);
}

// What is called, to the right neighbour: soon, but not one by one where many small ones follow each other.
void Engine::announce() {
  if (ledger_.unannounced() == 0) return;
  for (LedgerCall& call : ledger_.take_unannounced()) {
    tell((config_.rank + 1) % config_.size, {.type = Control::Type::announce,
                                             .number = call.times,
                                             .signature = call.signature,
                                             .counts = std::move(call.counts)});
  }
}

// Begins what may begin, and runs it as far as it goes; ends what has ended.
void Engine::begin_collectives() {
  for (;;) {
    while (!failure_ && running_.size() < kAtOnce && !queue_.empty()) {
      begin(StatePtr(queue_.front()));
      queue_.pop_front();  // if that has thrown, it is still there to be ended
    }
    if (carrier_ && ground_.ready.empty()) carrier_->flush();
    if (ground_.ready.empty()) return tell_turn();
    resume_ready();
  }
}

// The deadline of a collective counts from when all before it have ended.
void Engine::tell_turn() {
  const StatePtr* oldest = !running_.empty() ? &running_.front()->state
                           : !queue_.empty() ? &queue_.front()
                                             : nullptr;
  if (oldest == nullptr) {
    if (std::exchange(turn_, std::nullopt)) judge_->idle();
    expires_ = INT64_MAX;
    return;
  }
  const Operation::State& state = **oldest;
  if (turn_ == state.call.number) return;
  turn_ = state.call.number;
  const Time now = net::monotonic_now();
  const bool all_reduce = state.call.signature.kind == strategy::Kind::all_reduce;
  expires_ = now + state.timeout;
  judge_->turn({kFoundingSteps + state.call.number, now, expires_,
                strategy_ && all_reduce ? strategy_->patience(state.call) : 0});
}

void Engine::begin(const StatePtr& state) {
  using strategy::Kind;
  strategy::Call& call = state->call;
  // Strategies that watch it themselves: those that run already have their turns first.
  call.deadline = net::monotonic_now() + state->timeout * static_cast<Duration>(1 + running_.size());
  const bool nothing = call.signature.count == 0 && call.signature.shape == 0 &&
                       call.signature.kind != Kind::barrier && call.signature.kind != Kind::exchange;
  if (config_.size == 1 || nothing) {
    // Every collective of one rank gives back what it was given.
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
    state->end({});
    return;
  }
  auto running = std::make_unique<Running>();
  running->state = state;
  running->context = std::make_unique<strategy::Context>(
      ground_, call, [this, state](Error error) { on_problem(state, std::move(error)); },
      [this, state](const net::Transfer& transfer) { on_broken_transfer(state, transfer); });
  strategy::Context& context = *running->context;
  switch (call.signature.kind) {
    case Kind::all_reduce: running->task = strategy_->all_reduce(context, call); break;
    case Kind::broadcast: running->task = strategy::broadcast(context, call); break;
    case Kind::barrier: running->task = strategy::barrier(context); break;
    case Kind::exchange: running->task = strategy::exchange(context, call); break;
    case Kind::reduce: running->task = strategy::reduce(context, call); break;
    case Kind::reduce_scatter: running->task = strategy::reduce_scatter(context, call); break;
    case Kind::all_gather: running->task = strategy::all_gather(context, call); break;
    case Kind::gather: running->task = strategy::gather(context, call); break;
    case Kind::scatter: running->task = strategy::scatter(context, call); break;
    case Kind::all_to_all: running->task = strategy::all_to_all(context, call); break;
  }
  running_.push_back(std::move(running));
  running_.back()->task.start();
  if (!running_.back()->task.done()) {
    // Sends that a strategy has queued go out now, not after the next wait.
    if (strategy_) strategy_->progress({});
    return;
  }
  running_.pop_back();
  state->end({});
}

void Engine::resume_ready() {
  while (!ground_.ready.empty() && !failure_) {
    const auto next = ground_.ready.front();
    ground_.ready.pop_front();
    next.resume();
  }
  if (failure_) return ground_.ready.clear();
  std::erase_if(running_, [](const std::unique_ptr<Running>& each) {
    if (!each->task.done()) return false;
    each->state->end({});
    return true;
  });
}

void Engine::begin_point(const StatePtr& state) {
  using What = Operation::State::What;
  if (!carrier_) {
    state->end(fail(ErrorCode::invalid_argument, state->describe() + ": there is no other rank"));
    return;
  }
  const bool sending = state->what == What::send;
  if (!sending) expect_from(state->peer);
  auto* data = sending ? const_cast<void*>(state->call.input) : state->call.output;
  net::TransferPtr transfer =
      sending
          ? carrier_->send(state->peer, strategy::tags::point(state->tag, config_.rank), data, state->bytes)
      : state->peer == kAnySource
          ? carrier_->recv(config_.rank, strategy::tags::point(state->tag, 0), ~strategy::tags::kSourceMask,
                           data, state->bytes)
          : carrier_->recv(state->peer, strategy::tags::point(state->tag, state->peer),
                           strategy::tags::kAllMask, data, state->bytes);
  points_.push_back({state, std::move(transfer), std::nullopt, 0});
  if (!sending && gone(state->peer)) give_up_on_left(points_.back());
}

void Engine::expect_from(std::uint32_t rank) {
  if (rank != kAnySource) {
    ground_.contacts[rank] = true;
    return;
  }
  for (std::uint32_t r = 0; r < config_.size; ++r) {
    if (r != config_.rank) ground_.contacts[r] = true;
  }
}

// Whoever a message could come from has left.
bool Engine::gone(std::uint32_t rank) const {
  if (rank != kAnySource) return left_[rank];
  for (std::uint32_t r = 0; r < config_.size; ++r) {
    if (r != config_.rank && !left_[r]) return false;
  }
  return true;
}

std::string Engine::name_of(std::uint32_t rank) const {
  return rank == kAnySource ? "any rank" : names_[rank];
}

std::vector<std::uint16_t> Engine::members(std::uint32_t rank) {
  return rank == kAnySource ? std::vector<std::uint16_t>() : std::vector{id(rank)};
}

void Engine::check_points() {
  using Status = net::Transfer::Status;
  bool some = false;
  // First they end, then they go: what throws in between must leave the list whole.
  for (const Point& each : points_) {
    Operation::State& state = *each.state;
    if (!each.transfer->ended()) continue;
    some = true;
    if (state.ended) continue;
    const bool came = each.transfer->status == Status::done || each.transfer->status == Status::wrong_length;
    if (state.what == Operation::State::What::recv && came)
      state.peer = strategy::tags::source(each.transfer->tag);
    switch (each.transfer->status) {
      case Status::pending: break;
      case Status::done: state.end({}); break;
      case Status::wrong_length:
        state.end(fail(
            ErrorCode::disagreement,
            fmt::format("{}: {} sent {} bytes", state.describe(), names_[state.peer], each.transfer->bytes),
            {id(state.peer), id(config_.rank)}));
        break;
      case Status::cancelled:
      case Status::failed:
        state.end(tl::unexpected(each.given_up.value_or(
            Error{ErrorCode::peer_lost, fmt::format("{}: {} is lost", state.describe(), name_of(state.peer)),
                  members(state.peer)})));
        break;
    }
  }
  if (some) std::erase_if(points_, [](const Point& each) { return each.transfer->ended(); });
}

Time Engine::next_wake() const {
  Time next = judge_->next_timer();
  for (const Point& each : points_) {
    if (each.given_up && judge_->has_proposal()) continue;  // that will end it
    next = std::min(next, each.given_up ? each.given_up_at + kSecond : each.state->call.deadline);
  }
  if (strategy_) next = std::min({next, expires_, strategy_->next_timer().value_or(INT64_MAX)});
  return next;
}

}  // namespace passing
