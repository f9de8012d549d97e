#include "communicator/engine.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/thread.h"
#include "communicator/settings.h"
#include "net/address.h"
#include "net/member.h"
#include "net/rendezvous.h"
#include "strategy/reduce.h"

namespace passing {
namespace {

// Collectives that run at the same time: the next one fills what the last one leaves of the links.
constexpr std::size_t kAtOnce = 8;
// Calls that may be under way without having been announced.
constexpr std::size_t kAnnouncements = 16;

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
  engine->mailbox_->set_worker(engine.get());
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
  const auto servers = chosen_servers(config_);
  const std::size_t peers = config_.size + servers.size();
  ground_.contacts.resize(peers);
  left_.resize(peers);
  if (config_.size == 1) {
    own.address = "this process";
    names_ = {own.name()};
    return {};
  }
  // By the way to what all ranks must reach.
  const auto local = net::own_address(
      config_.address, config_.controller.empty() && !servers.empty() ? servers[0] : config_.controller);
  if (!local) return tl::unexpected(local.error());
  auto mesh = net::Mesh::create(config_.rank, static_cast<std::uint32_t>(peers), *local);
  if (!mesh) return tl::unexpected(mesh.error());
  mesh_ = std::move(*mesh);
  ground_.mesh = mesh_.get();
  own.address = net::to_string(mesh_->address());
  const auto blobs = pick_exchange(config_)(own.encode());
  if (!blobs) return tl::unexpected(blobs.error());
  const auto all = check(own, *blobs);
  if (!all) return tl::unexpected(all.error());
  std::vector<net::SocketAddress> addresses;
  std::vector<std::string> hosts;
  for (const Introduction& each : *all) {
    names_.push_back(each.name());
    hosts.push_back(each.host);
    const auto address = net::parse_numeric_address(each.address);
    if (!address) return tl::unexpected(address.error());
    addresses.push_back(*address);
  }
  std::uint64_t group = kHashBegin;
  for (const std::string& blob : *blobs) group = hash_of(blob, group);
  auto made = strategy::make_strategy(config_.strategy, {.config = config_,
                                                         .names = names_,
                                                         .hosts = std::move(hosts),
                                                         .servers = servers,
                                                         .address = own.address,
                                                         .group = group});
  if (!made) return tl::unexpected(made.error());
  strategy_ = std::move(*made);
  for (const net::Place& server : strategy_->servers()) {
    names_.push_back(server.name);
    addresses.push_back(server.address);
  }
  mesh_->introduce(std::move(addresses), group);
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
  while (!work(sources)) {
  }
  const std::lock_guard lock(mailbox_->turns());
  mailbox_->set_worker(nullptr);
  guarded([&] {
    take_post(true);
    if (!failure_) announce();  // before the farewell
  });
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
  take_post(!sources.empty() && sources[0].revents != 0);
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

void Engine::take_post(bool readable) {
  Mailbox::Post post = mailbox_->take(readable);
  // What cannot be taken any more for want of memory must still end.
  struct Rest {
    std::vector<StatePtr>& states;
    std::size_t taken = 0;
    ~Rest() {
      for (; taken < states.size(); ++taken)
        states[taken]->end(tl::unexpected(Error{ErrorCode::no_capacity, "no memory", {}}));
    }
  } rest{post.submitted};
  for (const StatePtr& state : post.submitted) {
    if (state->what != Operation::State::What::collective) {
      begin_point(state);
      ++rest.taken;
      continue;
    }
    queue_.push_back(state);
    ++rest.taken;
    ++called_;
    if (!mesh_) continue;
    if (const auto gone = gone_before(called_); !gone.empty()) {
      fail_group({ErrorCode::peer_lost,
                  fmt::format("{}: {} left before it", state->describe(), names_of(gone)), gone});
    }
    mine_.push_back(state->call.signature);
    compare_announcements();
    unannounced_.emplace_back(state->call.number, state->call.signature);
    if (unannounced_.size() >= kAnnouncements) announce();
  }
  for (const StatePtr& state : post.cancelled) on_cancelled(state);
}

// What is called, to the right neighbour: soon, but not one by one where many small ones follow each other.
void Engine::announce() {
  for (const auto& [number, signature] : std::exchange(unannounced_, {})) {
    tell((config_.rank + 1) % config_.size,
         {.type = Control::Type::announce, .number = number, .signature = signature});
  }
}

// Begins what may begin, and runs it as far as it goes; ends what has ended.
void Engine::begin_collectives() {
  for (;;) {
    while (!failure_ && running_.size() < kAtOnce && !queue_.empty()) {
      begin(StatePtr(queue_.front()));
      queue_.pop_front();  // if that has thrown, it is still there to be ended
    }
    if (mesh_ && ground_.ready.empty()) mesh_->flush();
    if (ground_.ready.empty()) return;
    resume_ready();
  }
}

void Engine::begin(const StatePtr& state) {
  using strategy::Kind;
  strategy::Call& call = state->call;
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
  const bool watched = strategy_ && state.call.signature.kind == strategy::Kind::all_reduce &&
                       strategy_->watches_deadlines(state.call);
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

}  // namespace passing
