// How operations end other than by results: docs/protocol.md section 8.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "endpoint/lane.h"

namespace passing::endpoint {

using wire::SlotState;

void Lane::on_notice(std::uint64_t k, const wire::Report& report) {
  ++counters_.notices;
  const Part& owner = part(chunk(k).part);
  const std::string what = owner.operation.describe();
  if (report.state == SlotState::disagreement) {
    give_up(k, owner.index,
            {ErrorCode::disagreement,
             fmt::format("{} and {} submitted different operations; {} has {} here",
                         config_.name_of(report.first), config_.name_of(report.second),
                         config_.name_of(config_.member), what),
             {report.first, report.second}});
  } else if (report.state == SlotState::aborted) {
    const auto absent = absent_from(report.bitmap);
    give_up(k, owner.index,
            {ErrorCode::deadline,
             fmt::format("{} was aborted at the deadline of {}; missing: {}", what,
                         config_.name_of(report.second), config_.names_of(absent)),
             absent});
  }
}

void Lane::on_status(std::uint64_t k, const wire::Report& report) {
  if (k != base_) return;
  if (report.state == SlotState::filling || report.state == SlotState::absent) {
    missing_ = absent_from(report.bitmap);
  }
  if (report.state == SlotState::complete) contribute_again_ = aborting();
}

std::vector<std::uint16_t> Lane::absent_from(std::uint64_t bitmap) const {
  std::vector<std::uint16_t> absent;
  for (std::uint16_t member = 0; member < config_.members; ++member) {
    if ((bitmap >> member & 1) == 0) absent.push_back(member);
  }
  return absent;
}

// Chunk k has no result and never will: its operation fails. The chunks before k go on, also those
// of the same operation: other members may be waiting for them (section 8.2).
void Lane::give_up(std::uint64_t k, std::uint64_t operation, Error error) {
  if (!failure_ || operation < failure_->operation) failure_ = Failure{operation, std::move(error)};
  stop_from(k);
}

void Lane::stop_from(std::uint64_t k) {
  stop_ = std::min(stop_, k);
  for (std::uint64_t later = std::max(base_, k); later < next_; ++later) abandon(later);
  forget_abandoned();
}

void Lane::limit(std::uint64_t index) {
  if (index >= limit_) return;
  limit_ = index;
  for (std::uint64_t k = base_; k < next_; ++k) {
    if (chunk(k).part >= index) abandon(k);
  }
  while (!parts_.empty() && parts_.back().index >= index) {
    nonfinite_.erase(nonfinite_.lower_bound(parts_.back().first_stream), nonfinite_.end());
    parts_.pop_back();
  }
  forget_abandoned();
}

// Done as far as sending goes; its operation still counts it as outstanding, and never completes.
void Lane::abandon(std::uint64_t k) {
  chunk(k).state = State::done;
  in_flight_.remove(place(k));
}

void Lane::forget_abandoned() {
  std::erase_if(undeferred_, [&](std::uint64_t k) { return k < base_ || chunk(k).state == State::done; });
  advance();
  if (!in_flight_.empty()) return;
  timer_.reset();
  ask_status_ = probe_tail_ = false;
}

bool Lane::quiet() const {
  if (stop_ != UINT64_MAX) return base_ == next_;
  return first_part_ >= std::min(limit_, submitted());
}

void Lane::abort_through(Time now, std::uint64_t index) {
  if (index < abort_end_) return;
  const bool already = aborting();
  abort_end_ = index + 1;
  // A later deadline must not give the switch another grace period.
  if (already || !aborting()) return;
  abort_progress_ = now;
  expiries_ = 0;
  timer_ = now;
}

// Section 8.3: ABORT for the base chunk, and a status request with it, until something answers.
std::size_t Lane::abort_packet(Time now, std::byte* out) {
  // A dataplane that cannot make a frame longer has no room for the result in an ABORT.
  if (std::exchange(contribute_again_, false) && base_ < next_ && in_flight_.contains(place(base_)) &&
      sendable(base_))
    return transmit(now, base_, true, out);
  if (ask_status_) {
    ask_status_ = false;
    return control(wire::Type::status_request, out);
  }
  if (timer_ && now < *timer_) return 0;
  if (now >= abort_progress_ + config_.grace) {
    const Part& owner = parts_.front();
    give_up(base_, owner.index,
            {ErrorCode::unreachable,
             fmt::format("{}: no answer from the switch for {:.1f} s after the deadline{}",
                         owner.operation.describe(), static_cast<double>(config_.grace) / kSecond,
                         missing_.empty() ? "" : "; last heard missing: " + config_.names_of(missing_)),
             missing_});
    return 0;
  }
  // With nothing in flight the base chunk has no number yet; it gets one, but is never sent.
  // The timer backs off, but not past the end of the grace period.
  const Time end = abort_progress_ + config_.grace;
  if (base_ == next_ && !allocate()) {
    timer_ = std::min(now + round_trip_.timeout(expiries_), end);
    return 0;
  }
  if (!in_flight_.contains(place(base_))) {
    in_flight_.first_sent(place(base_), now);
    chunk(base_).state = State::in_flight;
  }
  ++expiries_;
  start_timer(now);
  timer_ = std::min(timer_.value_or(end), end);
  ask_status_ = true;
  return control(wire::Type::abort, out);
}

}  // namespace passing::endpoint
