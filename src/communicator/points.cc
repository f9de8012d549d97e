#include "communicator/points.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/member.h"

namespace passing {
namespace {

using What = Operation::State::What;
using Status = net::Transfer::Status;
namespace tags = strategy::tags;

// After that a message that is under way, and does not come to an end, takes the group with it. The judges
// need 350 ms more, and all of it must end within a second: docs/faults.md 8.
constexpr Duration kTakeBack = 500 * kMillisecond;
// Of that second, what they have for all of it: the rest is for what comes after the decision.
constexpr Duration kDecided = 900 * kMillisecond;

}  // namespace

void Points::begin(const StatePtr& state) {
  if (!group_.carrier) {
    state->end(fail(ErrorCode::invalid_argument, state->describe() + ": there is no other rank"));
    return;
  }
  const bool sending = state->what == What::send;
  if (!sending) expect_from(state->peer);
  auto* data = sending ? const_cast<void*>(state->call.input) : state->call.output;
  net::Carrier& carrier = *group_.carrier;
  const std::uint32_t own = group_.config.rank;
  const auto point = pending_.insert(pending_.end(), {state, nullptr, std::nullopt, state->call.deadline});
  by_time_.emplace(point->next, &*point);
  point->transfer =
      sending ? carrier.send(state->peer, tags::point(state->tag, own), data, state->bytes)
      : state->peer == kAnySource
          ? carrier.recv(own, tags::point(state->tag, 0), ~tags::kSourceMask, data, state->bytes)
          : carrier.recv(state->peer, tags::point(state->tag, state->peer), tags::kAllMask, data,
                         state->bytes);
  if (point->transfer->ended()) return on_transfer_end(point);
  point->transfer->on_end = [this, point] { on_transfer_end(point); };
  if (!sending && gone(state->peer)) give_up_on_left(*point);
}

// From within the carrier, and without memory: check() does the rest.
void Points::on_transfer_end(Place point) {
  by_time_.erase({point->next, &*point});
  if (point->given_up) --given_up_;
  ended_.splice(ended_.end(), pending_, point);
}

void Points::expect_from(std::uint32_t rank) {
  for (std::uint32_t r = 0; r < group_.config.size; ++r) {
    if (rank == r || (rank == kAnySource && r != group_.config.rank)) group_.ground.contacts[r] = true;
  }
}

// Whoever a message could come from has left.
bool Points::gone(std::uint32_t rank) const {
  if (rank != kAnySource) return group_.left[rank];
  for (std::uint32_t r = 0; r < group_.config.size; ++r) {
    if (r != group_.config.rank && !group_.left[r]) return false;
  }
  return true;
}

std::string Points::name_of(std::uint32_t rank) const {
  return rank == kAnySource ? "any rank" : group_.names[rank];
}

// As errors name them; any rank is none.
std::vector<std::uint16_t> Points::members(std::uint32_t rank) {
  return rank == kAnySource ? std::vector<std::uint16_t>() : std::vector{Group::id(rank)};
}

void Points::check() {
  while (!ended_.empty()) {
    const Point& each = ended_.front();
    Operation::State& state = *each.state;
    // First it ends, then it goes: what throws in between must leave the list whole.
    if (!state.ended) {
      const bool came =
          each.transfer->status == Status::done || each.transfer->status == Status::wrong_length;
      if (state.what == What::recv && came) state.peer = tags::source(each.transfer->tag);
      state.end(outcome(each));
    }
    ended_.pop_front();
  }
}

Expected<void> Points::outcome(const Point& point) const {
  const Operation::State& state = *point.state;
  switch (point.transfer->status) {
    case Status::pending:
    case Status::done: return {};
    case Status::wrong_length:
      return fail(ErrorCode::disagreement,
                  fmt::format("{}: {} sent {} bytes", state.describe(), group_.names[state.peer],
                              point.transfer->bytes),
                  {Group::id(state.peer), group_.own_id()});
    case Status::cancelled:
    case Status::failed: break;
  }
  return tl::unexpected(point.given_up.value_or(
      Error{ErrorCode::peer_lost, fmt::format("{}: {} is lost", state.describe(), name_of(state.peer)),
            members(state.peer)}));
}

void Points::give_up(Point& point, Error error, Time now) {
  point.given_up = std::move(error);
  ++given_up_;
  look_again_at(point, now + kTakeBack);
  group_.carrier->cancel(point.transfer);
}

// Needs no memory.
void Points::look_again_at(Point& point, Time next) {
  auto node = by_time_.extract({point.next, &point});
  PASSING_ASSERT(!node.empty());
  point.next = next;
  node.value().first = next;
  by_time_.insert(std::move(node));
}

void Points::give_up_on_left(Point& point) {
  const std::uint32_t rank = point.state->peer;
  give_up(point,
          {ErrorCode::peer_lost,
           fmt::format("{}: {} has left", point.state->describe(),
                       rank == kAnySource ? "every other rank" : group_.names[rank]),
           members(rank)},
          net::monotonic_now());
}

// Giving up may end it at once, and takes it out of the list then.
void Points::on_left() {
  for (auto next = pending_.begin(); next != pending_.end();) {
    Point& each = *next++;
    if (each.state->what == What::recv && gone(each.state->peer) && !each.given_up) give_up_on_left(each);
  }
}

bool Points::cancel(const StatePtr& state, const Error& error) {
  if (state->what != What::recv) return false;
  const auto found = std::ranges::find(pending_, state, &Point::state);
  if (found != pending_.end() && !found->given_up) give_up(*found, error, net::monotonic_now());
  return true;
}

void Points::check_time(Time now) {
  for (auto next = by_time_.begin(); next != by_time_.end() && next->first <= now;) {
    Point& each = *(next++)->second;
    const Operation::State& state = *each.state;
    if (!each.given_up) {
      give_up(each,
              {ErrorCode::deadline,
               fmt::format("{}: waiting for {} since {:.1f} s", state.describe(), name_of(state.peer),
                           static_cast<double>(now - state.begun) / kSecond),
               members(state.peer)},
              now);
    } else if (!witness_.has_proposal()) {
      // It could not be taken back: a message is under way and does not come to an end.
      Error error = *each.given_up;
      error.message = fmt::format("{}: {}", group_.own_name(), error.message);
      witness_.fail(std::move(error));
      break;
    }
  }
  tell_due();
}

// The judge must have decided in time for those that only the end of the group can end.
void Points::tell_due() {
  if (given_up_ == 0 && !told_due_) return;
  Time first = INT64_MAX;
  for (const auto& [time, point] : by_time_) {
    if (point->given_up) first = std::min(first, time);
  }
  told_due_ = first != INT64_MAX;
  witness_.due(told_due_ ? first - kTakeBack + kDecided : INT64_MAX);
}

Time Points::next_wake() const {
  for (const auto& [time, point] : by_time_) {
    // A proposal will end it.
    if (!point->given_up || !witness_.has_proposal()) return time;
  }
  return INT64_MAX;
}

void Points::end_all(const Error& error) {
  PASSING_ASSERT(!group_.carrier);
  for (auto* points : {&ended_, &pending_}) {
    for (const Point& each : *points) each.state->fail_unless_ended(error);
  }
  by_time_.clear();
  ended_.clear();
  pending_.clear();
}

}  // namespace passing
