#include "strategy/rack.h"

#include <algorithm>

#include "strategy/reduce.h"
#include "wire/wire.h"

namespace passing::strategy {
namespace {

constexpr std::size_t kBlock = PASSING_BLOCK_ELEMENTS;
// Of a leg, for each host of a rack: long enough to be a good message.
constexpr std::size_t kPartBlocks = 16;
constexpr std::size_t kStripeBytes = 1 << 20;
// Each leg under way has two channels: for sums, and for results.
constexpr std::size_t kLegs = 8;

}  // namespace

// A stretch of a leg that one host of the rack sums.
struct RackAcross::Part {
  std::size_t first;  // element of the leg
  std::size_t count;
  std::size_t wide;   // bytes of a sum,
  std::size_t width;  // and of a result
  std::size_t sum_bytes() const { return count * wide; }
  std::size_t result_bytes() const { return count * width; }
  const std::byte* sums(const Leg& leg) const {
    return static_cast<const std::byte*>(leg.sums) + first * wide;
  }
  std::byte* results(const Leg& leg) const { return static_cast<std::byte*>(leg.results) + first * width; }
};

RackAcross::Part RackAcross::part(const Call& call, const Leg& leg, std::size_t position) const {
  const Signature& what = call.signature;
  const std::size_t owners = racks_.fewest();
  const std::size_t blocks = (leg.count + kBlock - 1) / kBlock;
  const std::size_t begin = std::min(leg.count, blocks * position / owners * kBlock);
  const std::size_t end = std::min(leg.count, blocks * (position + 1) / owners * kBlock);
  return {begin, end - begin, size_of(inhost::wide_type(what.type)), size_of(what.type)};
}

std::uint32_t RackAcross::owners(const Call& call) const { return owners_for(call, kStripeBytes, lanes_); }

std::size_t RackAcross::leg(const Call& /*call*/) const { return racks_.fewest() * kPartBlocks * kBlock; }

std::size_t RackAcross::legs_at_once() const { return kLegs; }

Task RackAcross::carry(Context& context, const Call& call, const Leg& leg) {
  const auto channel = static_cast<std::uint32_t>(leg.first / this->leg(call) % kLegs * 2);
  if (leg.first == 0) context.narrow(racks_.row(hosts_, hosts_.index));
  const std::uint32_t own = racks_.position;
  std::vector<Transit> going;
  std::vector<Transit> coming;
  for (std::uint32_t p = 0; p < racks_.fewest(); ++p) {
    const Part each = part(call, leg, p);
    if (p == own || each.count == 0) continue;
    going.push_back(context.send(p, each.sums(leg), each.sum_bytes(), channel));
    // In place, the result of a part overwrites its sums: whoever made it has read them.
    coming.push_back(context.recv(p, each.results(leg), each.result_bytes(), channel + 1));
  }
  if (own < racks_.fewest()) co_await finish_own(context, call, leg, channel);
  for (Transit& each : coming) co_await each;
  for (Transit& each : going) co_await each;
}

// This host's part: summed over the rack in the order of its hosts, then over all racks, and back to the
// rack.
Task RackAcross::finish_own(Context& context, const Call& call, const Leg& leg, std::uint32_t channel) {
  const Signature& what = call.signature;
  const Part own = part(call, leg, racks_.position);
  if (own.count == 0) co_return;
  const std::uint64_t number = racks_.size() > 1 ? uplink_->take_number() : 0;
  const DataType wide = inhost::wide_type(what.type);
  const Reduction reduction = what.reduction == Reduction::average ? Reduction::sum : what.reduction;
  const std::uint32_t hosts = context.size();
  const Scratch theirs = context.scratch(hosts * own.sum_bytes());
  std::vector<Transit> coming;
  for (std::uint32_t p = 0; p < hosts; ++p) {
    if (p != racks_.position)
      coming.push_back(context.recv(p, theirs.get() + p * own.sum_bytes(), own.sum_bytes(), channel));
  }
  for (Transit& each : coming) co_await each;
  const auto of = [&](std::uint32_t p) -> const std::byte* {
    return p == racks_.position ? own.sums(leg) : theirs.get() + p * own.sum_bytes();
  };
  std::byte* sum = theirs.get() + racks_.position * own.sum_bytes();
  const std::byte* left = of(0);
  for (std::uint32_t p = 1; p < hosts; ++p) {
    combine(wide, reduction, left, of(p), own.count, sum);
    left = sum;
  }
  if (racks_.size() > 1) {
    // Other legs of the rack may have come first.
    co_await uplink_->turn(context, number);
    Task sum_of_racks = uplink_->sum(context, what,
                                     {.elements = own.count,
                                      .wide = wide != what.type,
                                      .divisor = ranks_,
                                      .input = left,
                                      .output = own.results(leg),
                                      .deadline = call.deadline});
    sum_of_racks.start();
    uplink_->call_next();
    co_await sum_of_racks;
  } else if (wide == what.type) {
    std::copy_n(left, own.sum_bytes(), own.results(leg));
    finish(what.type, what.reduction, ranks_, own.results(leg), own.count);
  } else {
    finish_host_sums(what.type, what.reduction, ranks_, left, own.count, own.results(leg));
  }
  std::vector<Transit> going;
  for (std::uint32_t p = 0; p < hosts; ++p) {
    if (p != racks_.position)
      going.push_back(context.send(p, own.results(leg), own.result_bytes(), channel + 1));
  }
  for (Transit& each : going) co_await each;
}

}  // namespace passing::strategy
