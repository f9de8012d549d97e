#include "communicator/engine.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/thread.h"
#include "communicator/settings.h"
#include "net/address.h"
#include "net/member.h"
#include "net/rendezvous.h"

namespace passing {
namespace {

// Collectives that run at the same time: the next one fills what the last one leaves of the links.
constexpr std::size_t kAtOnce = 8;

std::string host_label(const Config& config) {
  if (!config.host.empty()) return config.host;
  char name[256] = "?";
  gethostname(name, sizeof name - 1);
  return name;
}

Exchange pick_exchange(const Config& config) {
  if (config.exchange) return config.exchange;
  const net::Rendezvous who{.job = config.job,
                            .rank = config.rank,
                            .size = config.size,
                            .timeout = config.create_timeout.count() * kMillisecond};
  if (!config.directory.empty()) return net::directory_exchange(who, config.directory);
  return net::controller_exchange(who, config.controller, config.token);
}

Expected<std::vector<Introduction>> check(const Introduction& own, const std::vector<std::string>& blobs) {
  if (blobs.size() != own.size) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the rendezvous gave {} blobs for {} ranks", blobs.size(), own.size));
  }
  std::vector<Introduction> all;
  for (std::uint32_t r = 0; r < own.size; ++r) {
    auto other = Introduction::decode(blobs[r]);
    if (!other) {
      return fail(
          ErrorCode::disagreement,
          fmt::format(
              "what rank {} gave at the rendezvous cannot be read: do all ranks run the same version?", r),
          {static_cast<std::uint16_t>(r)});
    }
    const auto differ = [&](const char* what, const auto& theirs, const auto& ours) {
      return fail(ErrorCode::disagreement,
                  fmt::format("{} has {} {}, {} has {}: give all ranks the same", other->name(), what, theirs,
                              own.name(), ours),
                  {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(own.rank)});
    };
    if (other->version != own.version) return differ("version", other->version, own.version);
    if (other->rank != r || other->size != own.size) {
      return fail(ErrorCode::disagreement,
                  fmt::format("{} of {} was given as rank {} of {}: check the launcher's variables",
                              other->name(), other->size, r, own.size),
                  {static_cast<std::uint16_t>(r)});
    }
    if (other->strategy != own.strategy) return differ("strategy", other->strategy, own.strategy);
    all.push_back(std::move(*other));
  }
  return all;
}

}  // namespace

Expected<std::unique_ptr<Engine>> Engine::create(Config config) {
  if (auto valid = config.validate(); !valid) return tl::unexpected(valid.error());
  config.strategy = chosen_strategy(config);
  std::unique_ptr<Engine> engine(new Engine(std::move(config)));
  auto mailbox = Mailbox::create();
  if (!mailbox) return tl::unexpected(mailbox.error());
  engine->mailbox_ = std::move(*mailbox);
  engine->process_ = getpid();
  if (auto met = engine->meet(); !met) return tl::unexpected(met.error());
  auto thread = start_thread([raw = engine.get()] { raw->run(); });
  if (!thread) return tl::unexpected(thread.error());
  engine->thread_ = std::move(*thread);
  return engine;
}

// Finds the others.
Expected<void> Engine::meet() {
  config_.host = host_label(config_);
  Introduction own{.version = PASSING_VERSION_STRING,
                   .strategy = config_.strategy,
                   .host = config_.host,
                   .process = static_cast<std::uint32_t>(getpid()),
                   .rank = config_.rank,
                   .size = config_.size};
  ground_.rank = config_.rank;
  ground_.size = config_.size;
  ground_.contacts.resize(config_.size);
  left_.resize(config_.size);
  if (config_.size == 1) {
    own.address = "this process";
    names_ = {own.name()};
    return {};
  }
  const auto local = net::own_address(config_.address, config_.controller);
  if (!local) return tl::unexpected(local.error());
  auto mesh = net::Mesh::create(config_.rank, config_.size, *local);
  if (!mesh) return tl::unexpected(mesh.error());
  mesh_ = std::move(*mesh);
  ground_.mesh = mesh_.get();
  own.address = net::to_string(mesh_->address());
  const auto blobs = pick_exchange(config_)(own.encode());
  if (!blobs) return tl::unexpected(blobs.error());
  const auto all = check(own, *blobs);
  if (!all) return tl::unexpected(all.error());
  std::vector<net::SocketAddress> addresses;
  for (const Introduction& each : *all) {
    names_.push_back(each.name());
    const auto address = net::parse_numeric_address(each.address);
    if (!address) return tl::unexpected(address.error());
    addresses.push_back(*address);
  }
  std::uint64_t group = 14695981039346656037U;
  for (const std::string& blob : *blobs) {
    for (const char each : blob) group = (group ^ static_cast<unsigned char>(each)) * 1099511628211U;
  }
  mesh_->introduce(std::move(addresses), group);
  auto made = strategy::make_strategy(config_.strategy, {config_, names_});
  if (!made) return tl::unexpected(made.error());
  strategy_ = std::move(*made);
  config_.exchange = nullptr;  // may refer to what ends with the call
  return {};
}

Engine::~Engine() {
  if (thread_.joinable()) {
    mailbox_->close({ErrorCode::cancelled, "the communicator has been closed", {}});
    stop_ = true;
    mailbox_->wake();
    thread_.join();
  }
}

void Engine::run() {
  pthread_setname_np(pthread_self(), "passing");

  std::vector<pollfd> sources;
  try {
    while (!stop_ && !failure_) {
      turn(sources);
      if (!failure_ && !stop_) wait(sources);
    }
    take_post();
  } catch (const std::exception& problem) {
    fail_group({ErrorCode::no_capacity,
                fmt::format("{}: {}; give it more memory", names_[config_.rank], problem.what()),
                {static_cast<std::uint16_t>(config_.rank)}});
  }
  if (!failure_ && (!queue_.empty() || !running_.empty())) {
    failure_ = Error{ErrorCode::cancelled,
                     fmt::format("{} has closed its communicator before the end of {}", names_[config_.rank],
                                 (running_.empty() ? queue_.front() : running_.front()->state)->describe()),
                     {static_cast<std::uint16_t>(config_.rank)}};
  }
  if (failure_) {
    end_all(*failure_);
  } else {
    leave();
  }
}

// Does all that can be done now. `sources` are those of the last wait, or empty.
void Engine::turn(std::span<const pollfd> sources) {
  take_post();
  if (strategy_) strategy_->progress(sources.size() > 2 ? sources.subspan(2) : std::span<const pollfd>());
  if (mesh_ && (sources.empty() || sources[1].revents != 0)) {
    mesh_->progress();
    hear();
  }
  begin_collectives();
  if (mesh_ && mesh_->has_lost()) hear();
  check_time();
  check_points();
}

void Engine::take_post() {
  Mailbox::Post post = mailbox_->take();
  for (const StatePtr& state : post.submitted) {
    if (state->what != Operation::State::What::collective) {
      begin_point(state);
      continue;
    }
    ++called_;
    queue_.push_back(state);
    if (!mesh_) continue;
    if (const auto gone = gone_before(called_); !gone.empty()) {
      fail_group({ErrorCode::peer_lost,
                  fmt::format("{}: {} left before it", state->describe(), names_of(gone)), gone});
    }
    mine_.push_back(state->call.signature);
    compare_announcements();
    tell((config_.rank + 1) % config_.size,
         {.type = Control::Type::announce, .number = state->call.number, .signature = state->call.signature});
  }
  for (const StatePtr& state : post.cancelled) on_cancelled(state);
}

// Begins what may begin, and runs it as far as it goes; ends what has ended.
void Engine::begin_collectives() {
  for (;;) {
    while (!failure_ && running_.size() < kAtOnce && !queue_.empty()) {
      const StatePtr state = queue_.front();
      queue_.pop_front();
      begin(state);
    }
    if (ground_.ready.empty()) return;
    resume_ready();
  }
}

void Engine::begin(const StatePtr& state) {
  using strategy::Kind;
  strategy::Call& call = state->call;
  const bool nothing = call.signature.count == 0 &&
                       (call.signature.kind == Kind::all_reduce || call.signature.kind == Kind::broadcast);
  if (config_.size == 1 || nothing) {
    if (call.signature.kind == Kind::all_reduce && call.bytes() > 0 && call.output != call.input)
      std::memcpy(call.output, call.input, call.bytes());
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
  if (!mesh_) {
    state->end(fail(ErrorCode::invalid_argument, state->describe() + ": there is no other rank"));
    return;
  }
  const bool sending = state->what == What::send;
  if (!sending) ground_.contacts[state->peer] = true;
  auto* data = sending ? const_cast<void*>(state->call.input) : state->call.output;
  net::TransferPtr transfer =
      sending ? mesh_->send(state->peer, strategy::tags::point(state->tag, config_.rank), data, state->bytes)
              : mesh_->recv(state->peer, strategy::tags::point(state->tag, state->peer),
                            strategy::tags::kAllMask, data, state->bytes);
  points_.push_back({state, std::move(transfer), std::nullopt, 0});
  if (!sending && left_[state->peer]) give_up_on_left(points_.back());
}

void Engine::check_points() {
  using Status = net::Transfer::Status;
  std::erase_if(points_, [this](Point& each) {
    Operation::State& state = *each.state;
    const auto who = static_cast<std::uint16_t>(state.peer);
    switch (each.transfer->status) {
      case Status::pending: return false;
      case Status::done: state.end({}); break;
      case Status::wrong_length:
        state.end(fail(
            ErrorCode::disagreement,
            fmt::format("{}: {} sent {} bytes", state.describe(), names_[state.peer], each.transfer->bytes),
            {who, static_cast<std::uint16_t>(config_.rank)}));
        break;
      case Status::cancelled:
      case Status::failed:
        state.end(tl::unexpected(
            each.given_up.value_or(Error{ErrorCode::peer_lost,
                                         fmt::format("{}: {} is lost", state.describe(), names_[state.peer]),
                                         {who}})));
        break;
    }
    return true;
  });
}

// A strategy that watches deadlines itself gets the time to find out who is missing.
Time Engine::limit_of(const Operation::State& state) const {
  constexpr Duration kStrategyGrace = 7 * kSecond;
  const bool watched =
      strategy_ && strategy_->watches_deadlines() && state.call.signature.kind == strategy::Kind::all_reduce;
  return state.call.deadline + (watched ? kStrategyGrace : 0);
}

Time Engine::next_wake() const {
  Time next = INT64_MAX;
  if (!inquiry_) {
    for (const auto& each : running_) next = std::min(next, limit_of(*each->state));
    for (const auto& each : queue_) next = std::min(next, limit_of(*each));
  } else {
    next = inquiry_->until;
  }
  for (const Point& each : points_)
    next = std::min(next, each.given_up ? each.given_up_at + kSecond : each.state->call.deadline);
  for (const Suspicion& each : suspicions_) next = std::min(next, each.due);
  if (strategy_) next = std::min(next, strategy_->next_timer().value_or(INT64_MAX));
  return next;
}

void Engine::wait(std::vector<pollfd>& sources) {
  sources.clear();
  sources.push_back({mailbox_->descriptor(), POLLIN, 0});
  sources.push_back({mesh_ ? mesh_->descriptor() : -1, POLLIN, 0});
  if (strategy_) strategy_->wait_on(sources);
  const Time next = next_wake();
  timespec left{};
  if (next != INT64_MAX) {
    const Duration time = std::max<Duration>(0, next - net::monotonic_now());
    left = {time / kSecond, time % kSecond};
  }
  if (ppoll(sources.data(), sources.size(), next == INT64_MAX ? nullptr : &left, nullptr) <= 0) {
    for (pollfd& each : sources) each.revents = 0;
  }
}

}  // namespace passing
