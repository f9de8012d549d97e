#include "strategy/uplink.h"

#include "strategy/reduce.h"
#include "strategy/strategy.h"

namespace passing::strategy {
namespace {

constexpr Duration kPart = 400 * kMillisecond;

numeric::DataType to_numeric(DataType type) {
  switch (type) {
    case DataType::float32: return numeric::DataType::float32;
    case DataType::float16: return numeric::DataType::float16;
    case DataType::bfloat16: return numeric::DataType::bfloat16;
    case DataType::int32: return numeric::DataType::int32;
    default: break;
  }
  return numeric::DataType::none;
}

// What the switch says of members, said of ranks.
Error of_ranks(Error error, const std::vector<std::uint32_t>& ranks) {
  if (ranks.empty()) return error;
  for (std::uint16_t& each : error.members) each = static_cast<std::uint16_t>(ranks[each % ranks.size()]);
  return error;
}

}  // namespace

Expected<std::unique_ptr<Uplink>> Uplink::join(const net::Member::Options& options,
                                               std::vector<std::uint32_t> ranks) {
  auto member = net::Member::join(options);
  if (!member) return tl::unexpected(of_ranks(member.error(), ranks));
  return std::unique_ptr<Uplink>(new Uplink(std::move(*member), std::move(ranks)));
}

bool Uplink::takes(const Signature& what) { return route(what.type, what.reduction) == Route::network; }

Task Uplink::sum(Context& context, const Signature& what, endpoint::Operation operation) {
  operation.type = to_numeric(what.type);
  operation.reduction =
      what.reduction == Reduction::average ? numeric::Reduction::average : numeric::Reduction::sum;
  const auto number = member_->submit(operation);
  if (!number) {
    context.problem(of_ranks(number.error(), ranks_));
    co_await std::suspend_always();
  }
  unsent_ = true;
  Sum sum{*this, context, *number};
  co_await sum;
}

void Uplink::call_next() {
  const auto next = queue_.find(++turn_);
  if (next == queue_.end()) return;
  const auto [context, waiter] = next->second;
  queue_.erase(next);
  context->resume(waiter);
}

void Uplink::progress(std::span<const pollfd> sources) {
  unsent_ = false;
  member_->progress(sources);
  while (auto done = member_->next_completion()) {
    const auto found = sums_.find(done->number);
    if (found == sums_.end()) continue;
    Sum& sum = *found->second;
    sums_.erase(found);
    if (done->outcome) {
      sum.context.resume(sum.waiter);
    } else {
      failed_ = true;
      sum.context.problem(of_ranks(done->outcome.error(), ranks_));
    }
  }
}

void Uplink::leave() {
  // With everyone else, if they come soon. All of a communicator's end takes a second at most.
  if (!failed_) member_->part(kPart);
}

void Uplink::abandon(const Error& reason) { member_->end(reason); }

net::Member::Options member_options(const Setup& setup) {
  const Config& config = setup.config;
  return {.controller = config.controller,
          .job = config.job,
          .token = config.token,
          .size = config.size,
          .rank = config.rank,
          .lanes = config.lanes,
          .slots = config.slots,
          // All ranks have met: whoever still has a place in the job is of an earlier group.
          .rejoin = true,
          .names = setup.names,
          .join_timeout = config.create_timeout.count() * kMillisecond,
          .grace = kAskSwitch,
          .quiet = config.quiet};
}

}  // namespace passing::strategy
