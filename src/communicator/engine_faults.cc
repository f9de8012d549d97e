// What goes wrong in a group, and how everyone learns of it: docs/errors.md.
#include <fmt/format.h>

#include <algorithm>

#include "communicator/engine.h"
#include "net/member.h"

namespace passing {
namespace {

// How long something that looks wrong may wait for the message that explains it.
constexpr Duration kExplanation = 200 * kMillisecond;
// How long an inquiry waits for ranks that do not answer.
constexpr Duration kAnswer = 500 * kMillisecond;
// How long a rank that waits for nobody itself leaves it to others to say who is missing.
constexpr Duration kOthers = 2 * kSecond;
// To get the word out that the group has failed, or that this rank leaves.
constexpr Duration kFarewell = 500 * kMillisecond;
// To get it out at all, where nothing holds it up.
constexpr Duration kGreeting = 50 * kMillisecond;

// In a message; all of them are in Error::members.
constexpr std::size_t kMostNamed = 8;
// A failure must fit a small message.
constexpr std::size_t kMostText = 4096;
constexpr std::size_t kMostMembers = 4096;

}  // namespace

std::string Engine::names_of(const std::vector<std::uint16_t>& ranks) const {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
    text += (i == 0 ? "" : ", ") + names_[ranks[i]];
  if (ranks.size() > kMostNamed) text += fmt::format(" and {} more", ranks.size() - kMostNamed);
  return text;
}

// Ranks that have left after fewer than `number` collectives.
std::vector<std::uint16_t> Engine::gone_before(std::uint64_t number) const {
  std::vector<std::uint16_t> gone;
  for (std::uint32_t r = 0; r < left_.size(); ++r) {
    if (left_[r] && *left_[r] < number) gone.push_back(id(r));
  }
  return gone;
}

void Engine::tell(std::uint32_t rank, const Control& control) {
  mesh_->send_urgent(rank, strategy::tags::kControl | config_.rank, control.encode());
}

// Messages first: they may explain why a connection has gone.
void Engine::hear() {
  while (auto message = mesh_->take(strategy::tags::kControl, strategy::tags::kClassMask)) {
    const auto control = Control::decode(message->data);
    const std::uint32_t from = strategy::tags::source(message->tag);
    if (!control || from >= config_.size) continue;
    ground_.contacts[from] = true;
    on_control(from, *control);
    if (failure_) return;
  }
  if (const auto& fault = mesh_->fault()) {
    fail_group(
        {fault->code, fmt::format("{}: {}", names_[config_.rank], fault->message), {id(config_.rank)}});
  }
  for (const net::LostPeer& lost : mesh_->take_lost()) {
    suspicions_.push_back({net::monotonic_now() + kExplanation,
                           {ErrorCode::peer_lost,
                            fmt::format("{} is lost: {}", names_[lost.rank], lost.reason),
                            {id(lost.rank)}},
                           lost.rank});
  }
}

void Engine::on_control(std::uint32_t from, const Control& control) {
  switch (control.type) {
    case Control::Type::announce:
      append(theirs_, {control.signature, control.counts, control.number});
      compare_announcements();
      break;
    case Control::Type::ask: tell(from, {.type = Control::Type::state, .number = called_}); break;
    case Control::Type::state:
      if (inquiry_) inquiry_->called[from] = control.number;
      break;
    case Control::Type::failure:
      if (!control.error) break;
      told_ = true;
      failure_ = control.error;
      break;
    case Control::Type::leave: on_left(from, control.number); break;
    case Control::Type::ready: ready_[from] = control.number; break;
    case Control::Type::begin: begun_ = control.number; break;
  }
}

void Engine::compare_announcements() {
  const std::uint32_t left = (config_.rank + config_.size - 1) % config_.size;
  while (!mine_.empty() && !theirs_.empty()) {
    Announced& mine = mine_.front();
    Announced& theirs = theirs_.front();
    if (mine.signature == theirs.signature) {
      const std::uint64_t both = std::min(mine.times, theirs.times);
      compared_ += both;
      for (auto* calls : {&mine_, &theirs_}) {
        calls->front().times -= both;
        if (calls->front().times == 0) calls->pop_front();
      }
      continue;
    }
    Error error{ErrorCode::disagreement,
                fmt::format("operation {}: {} called {}{}, {} called {}{}", compared_, names_[left],
                            theirs.signature.describe(), theirs.counts, names_[config_.rank],
                            mine.signature.describe(), mine.counts),
                {id(left), id(config_.rank)}};
    mine_.clear();
    theirs_.clear();
    return fail_group(std::move(error));
  }
}

void Engine::on_left(std::uint32_t rank, std::uint64_t number) {
  left_[rank] = number;
  if (called_ > number) {
    const auto last = !queue_.empty() ? queue_.back() : !running_.empty() ? running_.back()->state : nullptr;
    if (last && last->call.number >= number) {
      return fail_group({ErrorCode::peer_lost,
                         fmt::format("{}: {} left before it", last->describe(), names_[rank]),
                         {id(rank)}});
    }
  }
  // What it has sent has come: nothing more will.
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
  mesh_->cancel(point.transfer);
}

// A message of another operation, or one that cannot be sent. Usually something better is under way: an
// announcement that disagrees, a failure, a farewell.
void Engine::on_broken_transfer(const StatePtr& state, const net::Transfer& transfer) {
  using Status = net::Transfer::Status;
  if (transfer.status == Status::cancelled) return;  // by us
  const bool lost = transfer.status == Status::failed;
  std::string what = lost ? "is lost" : "called another operation";
  std::vector<std::uint16_t> who{id(transfer.peer)};
  if (transfer.status == Status::wrong_length) {
    // A piece that is too long tells no more.
    what = fmt::format("sent {} bytes{} where {} expected {}: do the counts of all ranks agree?",
                       transfer.before + transfer.bytes, transfer.bytes > transfer.expected ? " or more" : "",
                       names_[config_.rank], transfer.whole > 0 ? transfer.whole : transfer.expected);
    who.push_back(id(config_.rank));
  }
  Error error{lost ? ErrorCode::peer_lost : ErrorCode::disagreement,
              fmt::format("{}: {} {}", state->describe(), names_[transfer.peer], what), std::move(who)};
  suspicions_.push_back({net::monotonic_now() + kExplanation, std::move(error), std::nullopt});
}

// The switch knows who disagrees, but not what each one called: the announcements do. A neighbour that has
// gone may have been told of a failure sooner than this rank.
void Engine::on_problem(const StatePtr& state, Error error) {
  error.message = fmt::format("{}: {}", state->describe(), error.message);
  if (error.code != ErrorCode::disagreement && error.code != ErrorCode::peer_lost)
    return fail_group(std::move(error));
  suspicions_.push_back({net::monotonic_now() + kExplanation, std::move(error), std::nullopt});
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
      mesh_->cancel(each.transfer);
    }
    return;
  }
  fail_group(error);
}

void Engine::check_time() {
  if (failure_) return;
  const Time now = net::monotonic_now();
  for (std::size_t i = 0; i < suspicions_.size(); ++i) {
    Suspicion& each = suspicions_[i];
    if (now < each.due) continue;
    // A peer that has left in order may close its connections.
    if (each.lost && left_[*each.lost]) continue;
    return fail_group(each.error);
  }
  std::erase_if(suspicions_, [now](const Suspicion& each) { return now >= each.due; });

  for (Point& each : points_) {
    const Operation::State& state = *each.state;
    if (each.given_up) {
      // It could not be taken back: a message is under way and does not come to an end.
      if (now < each.given_up_at + kSecond) continue;
      Error error = *each.given_up;
      error.message = fmt::format("{}: {}", names_[config_.rank], error.message);
      return fail_group(std::move(error));
    }
    if (now < state.call.deadline) continue;
    each.given_up = Error{ErrorCode::deadline,
                          fmt::format("{}: waiting for {} since {:.1f} s", state.describe(),
                                      name_of(state.peer), static_cast<double>(now - state.begun) / kSecond),
                          members(state.peer)};
    each.given_up_at = now;
    mesh_->cancel(each.transfer);
  }

  if (inquiry_ && inquiry_->state->ended) inquiry_.reset();  // it was late, but it came
  if (inquiry_) {
    if (now >= inquiry_->until || (!inquiry_->concluded && inquiry_->called.size() + 1 == config_.size))
      conclude();
    return;
  }
  for (const auto& each : running_) {
    if (now >= limit_of(*each->state)) return inquire(each->state);
  }
  for (const StatePtr& each : queue_) {
    if (now >= limit_of(*each)) return inquire(each);
  }
}

void Engine::inquire(const StatePtr& state) {
  inquiry_ = Inquiry{.state = state, .until = net::monotonic_now() + kAnswer, .called = {}};
  for (std::uint32_t r = 0; r < config_.size; ++r) {
    if (r != config_.rank) tell(r, {.type = Control::Type::ask});
  }
}

void Engine::conclude() {
  const StatePtr state = inquiry_->state;
  std::vector<std::uint16_t> silent;
  std::vector<std::uint16_t> behind;
  for (std::uint32_t r = 0; r < config_.size; ++r) {
    if (r == config_.rank) continue;
    const auto answer = inquiry_->called.find(r);
    if (answer == inquiry_->called.end()) {
      silent.push_back(id(r));
    } else if (answer->second <= state->call.number) {
      behind.push_back(id(r));
    }
  }
  // Who is behind and alive may wait for someone else itself, since before this rank did: it has the word.
  if (silent.empty() && !behind.empty() && net::monotonic_now() < inquiry_->until) return;
  std::vector<std::uint16_t> missing = !silent.empty() ? silent : behind;
  const char* why = !silent.empty() ? "not answering" : "not calling it";
  if (missing.empty()) {
    why = "in the middle of it";
    for (const auto& each : running_) {
      if (each->state == state)
        for (const std::uint32_t rank : each->context->waiting_for()) missing.push_back(id(rank));
    }
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    // Everyone is there: if anyone knows more, it is the strategy, or a rank that this one left the rest to.
    const Duration verdict = strategy_ ? strategy_->verdict(state->call) : 0;
    if (!std::exchange(inquiry_->concluded, true) && (verdict > 0 || missing.empty())) {
      inquiry_->until = net::monotonic_now() + std::max(verdict, kOthers);
      return;
    }
  }
  fail_group({ErrorCode::deadline,
              fmt::format("{}: waiting for {} ({}) since {:.1f} s", state->describe(), names_of(missing), why,
                          static_cast<double>(net::monotonic_now() - state->begun) / kSecond),
              missing});
}

// Only notes it: this may be called from within a collective.
void Engine::fail_group(Error error) {
  // Servers are named in the message, but are no ranks.
  std::erase_if(error.members, [this](std::uint16_t each) { return each >= config_.size; });
  if (!failure_) failure_ = std::move(error);
}

// Tells everyone, lets go of all buffers, then ends the operations.
void Engine::end_all(Error error) {
  error.message.resize(std::min(error.message.size(), kMostText));
  error.members.resize(std::min(error.members.size(), kMostMembers));
  mailbox_->close(error);
  check_points();
  if (mesh_ && !told_) {
    for (std::uint32_t r = 0; r < config_.size; ++r) {
      if (r != config_.rank && !left_[r]) tell(r, {.type = Control::Type::failure, .error = error});
    }
    settle(kFarewell, [this] { return mesh_->sends_pending() == 0; });
  }
  if (strategy_) strategy_->abandon(error);
  ground_.ready.clear();
  mesh_.reset();
  for (const auto& each : running_) each->state->end(tl::unexpected(error));
  for (const StatePtr& each : queue_) {
    if (!each->ended) each->end(tl::unexpected(error));
  }
  for (const Point& each : points_) {
    if (!each.state->ended) each.state->end(tl::unexpected(error));
  }
  running_.clear();
  queue_.clear();
  points_.clear();
  for (const StatePtr& each : mailbox_->take().submitted) each->end(tl::unexpected(error));
  strategy_.reset();  // tells the controller, which may take a while: nobody waits for that any more
}

void Engine::leave() {
  // Others first: the switch may take its time.
  if (mesh_) {
    const std::uint32_t announces_to_us = (config_.rank + config_.size - 1) % config_.size;
    for (std::uint32_t r = 0; r < config_.size; ++r) {
      // Also to those that have left: they wait for this.
      if (r != config_.rank && (ground_.contacts[r] || mesh_->connected(r) || r == announces_to_us))
        tell(r, {.type = Control::Type::leave, .number = called_});
    }
    settle(kGreeting, [this] { return mesh_->sends_pending() == 0; });
  }
  if (strategy_) strategy_->leave();
  if (mesh_) {
    // Others usually leave now too; those that do not must not miss what is under way.
    settle(kFarewell, [this] {
      hear();
      for (std::uint32_t r = 0; r < config_.size; ++r) {
        if (r != config_.rank && !left_[r] && ground_.contacts[r] && !failure_) return false;
      }
      return mesh_->sends_pending() == 0;
    });
  }
  const Error closed{ErrorCode::cancelled, "the communicator has been closed", {}};
  check_points();
  strategy_.reset();
  mesh_.reset();
  for (const Point& each : points_) each.state->end(tl::unexpected(closed));
  points_.clear();
}

void Engine::settle(Duration limit, const std::function<bool()>& done) {
  const Time end = net::monotonic_now() + limit;
  for (;;) {
    mesh_->progress();
    const Duration time = end - net::monotonic_now();
    if (done() || time <= 0) return;
    // What that has sent goes out now, and may have been all there was to wait for.
    mesh_->flush();
    if (done()) return;
    Time until = end;
    for (const Suspicion& each : suspicions_) until = std::min(until, each.due);
    // Now and then `done` says what is waited for.
    const Duration rest = std::clamp<Duration>(until - net::monotonic_now(), kMillisecond, kSecond);
    pollfd source{mesh_->descriptor(), POLLIN, 0};
    const timespec left{rest / kSecond, rest % kSecond};
    ppoll(&source, 1, &left, nullptr);
  }
}

}  // namespace passing
