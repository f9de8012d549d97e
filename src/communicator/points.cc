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
  net::TransferPtr transfer =
      sending ? carrier.send(state->peer, tags::point(state->tag, own), data, state->bytes)
      : state->peer == kAnySource
          ? carrier.recv(own, tags::point(state->tag, 0), ~tags::kSourceMask, data, state->bytes)
          : carrier.recv(state->peer, tags::point(state->tag, state->peer), tags::kAllMask, data,
                         state->bytes);
  points_.push_back({state, std::move(transfer), std::nullopt, 0});
  if (!sending && gone(state->peer)) give_up_on_left(points_.back());
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

bool Points::some_ended() const {
  return std::ranges::any_of(points_, [](const Point& each) { return each.transfer->ended(); });
}

void Points::check() {
  bool some = false;
  // First they end, then they go: what throws in between must leave the list whole.
  for (const Point& each : points_) {
    if (!each.transfer->ended()) continue;
    some = true;
    Operation::State& state = *each.state;
    if (state.ended) continue;
    const bool came = each.transfer->status == Status::done || each.transfer->status == Status::wrong_length;
    if (state.what == What::recv && came) state.peer = tags::source(each.transfer->tag);
    state.end(outcome(each));
  }
  if (some) std::erase_if(points_, [](const Point& each) { return each.transfer->ended(); });
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
  point.given_up_at = now;
  group_.carrier->cancel(point.transfer);
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

void Points::on_left() {
  for (Point& each : points_) {
    if (each.state->what == What::recv && gone(each.state->peer) && !each.given_up) give_up_on_left(each);
  }
}

bool Points::cancel(const StatePtr& state, const Error& error) {
  if (state->what != What::recv) return false;
  for (Point& each : points_) {
    if (each.state == state && !each.given_up) give_up(each, error, net::monotonic_now());
  }
  return true;
}

void Points::check_time(Time now) {
  for (Point& each : points_) {
    const Operation::State& state = *each.state;
    if (each.given_up) {
      // It could not be taken back: a message is under way and does not come to an end.
      if (now < each.given_up_at + kTakeBack || witness_.has_proposal()) continue;
      Error error = *each.given_up;
      error.message = fmt::format("{}: {}", group_.own_name(), error.message);
      return witness_.fail(std::move(error));
    }
    if (now < state.call.deadline) continue;
    give_up(each,
            {ErrorCode::deadline,
             fmt::format("{}: waiting for {} since {:.1f} s", state.describe(), name_of(state.peer),
                         static_cast<double>(now - state.begun) / kSecond),
             members(state.peer)},
            now);
  }
}

Time Points::next_wake() const {
  Time next = INT64_MAX;
  for (const Point& each : points_) {
    if (each.given_up && witness_.has_proposal()) continue;  // that will end it
    next = std::min(next, each.given_up ? each.given_up_at + kTakeBack : each.state->call.deadline);
  }
  return next;
}

void Points::end_all(const Error& error) {
  PASSING_ASSERT(!group_.carrier);
  for (const Point& each : points_) each.state->fail_unless_ended(error);
  points_.clear();
}

}  // namespace passing
