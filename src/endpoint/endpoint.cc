#include "endpoint/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace passing::endpoint {

static_assert(std::endian::native == std::endian::little, "PayloadOrder::little is taken to be the host's");

namespace {

Expected<void> validate(const Operation& op, const Config& config) {
  const auto refuse = [](std::string sentence) {
    return fail(ErrorCode::invalid_argument, std::move(sentence));
  };
  if (op.kind != wire::OperationKind::all_reduce) return refuse("use leave() to leave a job");
  if (numeric::size_of(op.type) == 0) return refuse("type is none: must be a data type");
  if (op.wide && !numeric::is_float(op.type))
    return refuse("a wide input is float32: the type must be a float");
  if (op.divisor < 1 || op.divisor > numeric::kMaxDivisor) {
    return refuse(fmt::format("divisor is {}: must be 1 to {}", op.divisor, numeric::kMaxDivisor));
  }
  if (const std::uint64_t most = std::uint64_t{config.block_elements} << 23; op.elements > most) {
    return refuse(fmt::format("elements is {}: must be 0 to {}", op.elements, most));
  }
  if (op.deadline <= 0) return refuse("deadline is not set: every operation needs one");
  if (op.elements > 0 && (op.input == nullptr || op.output == nullptr)) {
    return refuse(fmt::format("{} is null: {} elements need a buffer",
                              op.input == nullptr ? "input" : "output", op.elements));
  }
  const auto in = reinterpret_cast<std::uintptr_t>(op.input);
  const auto out = reinterpret_cast<std::uintptr_t>(op.output);
  const std::uint64_t in_bytes = op.elements * numeric::size_of(op.input_type());
  const std::uint64_t out_bytes = op.elements * numeric::size_of(op.type);
  const bool in_place = in == out && in_bytes == out_bytes;
  if (!in_place && in < out + out_bytes && out < in + in_bytes) {
    return refuse("output overlaps input: must be the same buffer or a separate one");
  }
  return {};
}

}  // namespace

Expected<std::unique_ptr<Endpoint>> Endpoint::create(Config config) {
  if (auto valid = config.validate(); !valid) return tl::unexpected(valid.error());
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(config)));
}

Endpoint::Endpoint(Config config) : config_(std::move(config)), codec_(config_.tree()) {
  for (std::uint32_t lane = 0; lane < config_.lanes; ++lane) {
    lanes_.emplace_back(config_, lane, codec_);
  }
}

Expected<std::uint64_t> Endpoint::submit(Operation operation) {
  if (auto valid = validate(operation, config_); !valid) return tl::unexpected(valid.error());
  if (operation.reduction == numeric::Reduction::sum) operation.divisor = 1;
  return enqueue(operation);
}

Expected<std::uint64_t> Endpoint::leave(Time deadline) {
  auto number = enqueue({.kind = wire::OperationKind::close,
                         .type = numeric::DataType::none,
                         .reduction = numeric::Reduction::sum,
                         .deadline = deadline});
  if (number) left_ = true;
  return number;
}

Expected<std::uint64_t> Endpoint::enqueue(Operation operation) {
  if (failure_) return tl::unexpected(failure_->error);
  if (left_) {
    return fail(ErrorCode::invalid_argument, "this member has left the job: no more operations");
  }
  operation.number = next_number_++;
  for (Lane& lane : lanes_) lane.submit(operation);
  pending_.push_back({next_index_++, operation.number, operation.deadline});
  earliest_deadline_ = std::min(earliest_deadline_, operation.deadline);
  return operation.number;
}

void Endpoint::end_epoch(const Error& reason) {
  const std::uint64_t first = pending_.empty() ? next_index_ : pending_.front().index;
  fail_from(first, reason);
  for (Lane& lane : lanes_) lane.halt();
  collect();
}

void Endpoint::receive(Time now, std::uint32_t lane, const Address& from, wire::Bytes packet) {
  lanes_[lane].receive(now, from, packet);
  collect();
}

std::size_t Endpoint::next_packet(Time now, std::uint32_t lane, std::byte* out) {
  check_deadlines(now);
  const std::size_t bytes = lanes_[lane].next_packet(now, out);
  if (bytes == 0) collect();  // an abort that nobody answered ends here
  return bytes;
}

std::optional<Time> Endpoint::next_timer() const {
  std::optional<Time> earliest;
  const auto take = [&](Time time) { earliest = earliest ? std::min(*earliest, time) : time; };
  for (const Lane& lane : lanes_) {
    if (const auto timer = lane.next_timer()) take(*timer);
  }
  if (earliest_deadline_ != INT64_MAX) take(earliest_deadline_);
  return earliest;
}

void Endpoint::check_deadlines(Time now) {
  if (now < earliest_deadline_) return;
  for (const Pending& each : pending_) {
    if (each.index < abort_end_ || each.deadline > now) continue;
    abort_end_ = each.index + 1;
    for (Lane& lane : lanes_) lane.abort_through(now, each.index);
  }
  find_earliest_deadline();
}

void Endpoint::expire(Time now) {
  for (Pending& each : pending_) each.deadline = std::min(each.deadline, now);
  find_earliest_deadline();
}

void Endpoint::find_earliest_deadline() {
  earliest_deadline_ = INT64_MAX;
  for (const Pending& each : pending_) {
    if (each.index >= abort_end_) earliest_deadline_ = std::min(earliest_deadline_, each.deadline);
  }
}

// Turns what lanes have finished into completions, in order.
void Endpoint::collect() {
  std::uint64_t done = UINT64_MAX;
  for (const Lane& lane : lanes_) {
    if (lane.failure()) fail_from(lane.failure()->operation, lane.failure()->error);
    done = std::min(done, lane.completed());
  }
  const bool settled =
      failure_ && std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.quiet(); });
  const std::size_t before = pending_.size();
  while (!pending_.empty()) {
    const Pending& front = pending_.front();
    if (failure_ && front.index >= failure_->operation) {
      if (!settled) break;  // others may still need what it has to send
      completions_.push_back({front.number, tl::unexpected(failure_->error)});
    } else if (front.index < done) {
      completions_.push_back({front.number, {}});
    } else {
      break;
    }
    pending_.pop_front();
  }
  if (pending_.size() != before) find_earliest_deadline();
}

// Section 8.2: operation `index` and all later ones fail. The later ones are given up; this one goes
// on where it can, on every lane, until each chunk has a result or a notice.
void Endpoint::fail_from(std::uint64_t index, const Error& error) {
  if (failure_ && failure_->operation <= index) return;
  failure_ = Failure{index, error};
  for (Lane& lane : lanes_) lane.limit(index + 1);
}

std::optional<Completion> Endpoint::next_completion() {
  if (completions_.empty()) return std::nullopt;
  Completion next = std::move(completions_.front());
  completions_.pop_front();
  return next;
}

std::vector<std::uint16_t> Endpoint::missing() const {
  for (const Lane& lane : lanes_) {
    if (!lane.missing().empty()) return lane.missing();
  }
  return {};
}

}  // namespace passing::endpoint
