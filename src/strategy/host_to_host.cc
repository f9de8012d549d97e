#include "strategy/host_to_host.h"

#include <algorithm>

#include "strategy/reduce.h"
#include "wire/wire.h"

namespace passing::strategy {
namespace {

// A leg is long enough that each host's segment of it is a good message.
constexpr std::size_t kSegmentBytes = 256 << 10;
// A stripe shorter than this is not worth a rank of its own.
constexpr std::size_t kStripeBytes = 1 << 20;
// Each leg under way has a channel of its own.
constexpr std::size_t kLegs = 8;

class RingHierarchical : public Hierarchical {
 public:
  RingHierarchical(const Setup& setup, std::uint32_t lanes)
      : Hierarchical(setup.hosts, setup.host), ring_(setup.hosts, setup.config.size, lanes) {}

 private:
  Across& across(const Call& /*call*/) override { return ring_; }
  RingOfHosts ring_;
};

}  // namespace

Task HostToHost::carry(Context& context, const Call& call, const Leg& leg) {
  const Signature& what = call.signature;
  const DataType wide = inhost::wide_type(what.type);
  if (leg.first == 0) context.narrow(hosts_.row(hosts_.index));
  Call inner;
  inner.signature = {.kind = Kind::all_reduce,
                     .type = wide,
                     .reduction = what.reduction == Reduction::average ? Reduction::sum : what.reduction,
                     .count = leg.count};
  const auto channel = static_cast<std::uint32_t>(leg.first / this->leg(call) % kLegs);
  if (stays_narrow() && wide != what.type) {
    inner.signature.type = what.type;
    finish_host_sums(what.type, inner.signature.reduction, 1, leg.sums, leg.count, leg.results);
    inner.input = inner.output = leg.results;
    co_await reduce(context, inner, channel);
    finish(what.type, what.reduction, ranks_, leg.results, leg.count);
    co_return;
  }
  inner.input = leg.sums;
  inner.output = wide == what.type ? leg.results : const_cast<void*>(leg.sums);
  co_await reduce(context, inner, channel);
  finish_host_sums(what.type, what.reduction, ranks_, inner.output, leg.count, leg.results);
}

std::uint32_t RingOfHosts::owners(const Call& call) const { return owners_for(call, kStripeBytes, lanes_); }

std::size_t RingOfHosts::leg(const Call& call) const {
  // Alone in every host there is nothing to overlap with: the plain ring.
  if (hosts().most() == 1) return call.signature.count;
  const std::size_t width = std::max<std::size_t>(size_of(call.signature.type), sizeof(float));
  constexpr std::size_t kBlock = PASSING_BLOCK_ELEMENTS;
  return std::max<std::size_t>(1, hosts().size() * kSegmentBytes / width / kBlock) * kBlock;
}

std::size_t RingOfHosts::legs_at_once() const { return kLegs; }

Expected<std::unique_ptr<Strategy>> make_ring_hierarchical(const Setup& setup) {
  const auto lanes = lanes_of(setup);
  if (!lanes) return tl::unexpected(lanes.error());
  return std::make_unique<RingHierarchical>(setup, *lanes);
}

}  // namespace passing::strategy
