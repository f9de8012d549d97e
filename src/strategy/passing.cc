// PASSING: sums in the host, then in the switch. A host's lanes are ranks of it, each with a stripe of the
// tensor; each lane is a job of its own for the switch, with a member for every host.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "net/limits.h"
#include "strategy/hierarchical.h"
#include "strategy/host_to_host.h"
#include "strategy/rack.h"
#include "strategy/uplink.h"
#include "wire/wire.h"

namespace passing::strategy {
namespace {

constexpr std::size_t kBlock = PASSING_BLOCK_ELEMENTS;
// Results come back by the leg, so it is short; several are on the way, so that the window stays full.
constexpr std::size_t kLegBlocks = 16;
constexpr std::size_t kLegs = 64;
// A stripe shorter than this is not worth a lane.
constexpr std::size_t kStripeBytes = 256 << 10;
constexpr std::uint32_t kSlots = 256;

class SwitchAcross : public Across {
 public:
  /// Ranks beyond the lanes have no uplink.
  SwitchAcross(Uplink* uplink, std::uint32_t ranks, std::uint32_t lanes, bool alone)
      : uplink_(uplink), ranks_(ranks), lanes_(lanes), alone_(alone) {}

  std::uint32_t owners(const Call& call) const override { return owners_for(call, kStripeBytes, lanes_); }
  // Alone in every host there is nothing to overlap with.
  std::size_t leg(const Call& call) const override {
    return alone_ ? call.signature.count : kLegBlocks * kBlock;
  }
  std::size_t legs_at_once() const override { return kLegs; }
  Task carry(Context& context, const Call& call, const Leg& leg) override {
    const DataType type = call.signature.type;
    return uplink_->sum(context, call.signature,
                        {.elements = leg.count,
                         .wide = inhost::wide_type(type) != type,
                         .divisor = ranks_,
                         .input = leg.sums,
                         .output = leg.results,
                         .deadline = call.deadline});
  }

 private:
  Uplink* uplink_;
  std::uint32_t ranks_;  // of the group: what an average divides by
  std::uint32_t lanes_;
  bool alone_;
};

class Passing : public Hierarchical {
 public:
  Passing(const Setup& setup, std::unique_ptr<Uplink> uplink, std::uint32_t lanes)
      : Hierarchical(setup.hosts, setup.host),
        plan_(setup.plan),
        uplink_(std::move(uplink)),
        switch_(uplink_.get(), setup.config.size, lanes, setup.hosts.most() == 1),
        // What the switch cannot sum goes from host to host, by one rank of each.
        ring_(setup.hosts, setup.config.size, setup.plan ? lanes : 1),
        narrow_(setup.hosts, setup.config.size, setup.plan ? lanes : 1),
        doubling_(setup.hosts, setup.config.size) {
    if (setup.racks) rack_.emplace(setup.hosts, *setup.racks, uplink_.get(), setup.config.size, lanes);
  }

  bool has_sources() const override { return Hierarchical::has_sources() || uplink_ != nullptr; }
  void wait_on(std::vector<pollfd>& sources) override {
    const std::size_t before = sources.size();
    if (uplink_) uplink_->wait_on(sources);
    uplink_sources_ = sources.size() - before;
    Hierarchical::wait_on(sources);
  }
  void progress(std::span<const pollfd> sources) override;
  std::optional<Time> next_timer() const override;
  void expire() override {
    if (uplink_) uplink_->expire();
  }
  Duration patience(const Call& call) const override {
    return hosts().size() > 1 && way_of(call) == Way::network ? kPatience : 0;
  }
  void leave() override {
    if (uplink_) uplink_->leave();
  }
  void abandon(const Error& reason) override {
    if (uplink_) uplink_->abandon(reason);
  }

 private:
  Way way_of(const Call& call) const {
    if (plan_) return plan_->choose(call.signature);
    return Uplink::takes(call.signature) ? Way::network : Way::ring;
  }
  Across& across(const Call& call) override {
    switch (way_of(call)) {
      case Way::network:
        if (rack_) return *rack_;
        return switch_;
      case Way::narrow: return narrow_;
      case Way::doubling: return doubling_;
      default: return ring_;
    }
  }

  std::optional<Plan> plan_;        // none: always the switch
  std::unique_ptr<Uplink> uplink_;  // only for those that own a part
  std::optional<RackAcross> rack_;  // before the switch
  SwitchAcross switch_;
  RingOfHosts ring_;
  NarrowRingOfHosts narrow_;
  DoublingOfHosts doubling_;
  std::size_t uplink_sources_ = 0;
};

void Passing::progress(std::span<const pollfd> sources) {
  Hierarchical::progress(sources);
  if (Uplink* uplink = uplink_.get())
    uplink->progress(sources.first(std::min(sources.size(), uplink_sources_)));
}

std::optional<Time> Passing::next_timer() const {
  const auto own = Hierarchical::next_timer();
  const auto theirs = uplink_ ? uplink_->next_timer() : std::nullopt;
  if (!own || !theirs) return own ? own : theirs;
  return std::min(*own, *theirs);
}

Expected<void> check(const Setup& setup) {
  if (setup.config.controller.empty()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("strategy is '{}' and there are {} hosts, but controller is empty: set "
                            "PASSING_CONTROLLER to HOST:PORT of the switch, or PASSING_STRATEGY to "
                            "ring_hierarchical",
                            setup.config.strategy, setup.hosts.size()));
  }
  if (setup.config.token.size() < net::kShortestToken) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("token has {} characters: the controller wants at least {}, the same on all ranks "
                    "(PASSING_TOKEN or PASSING_TOKEN_FILE)",
                    setup.config.token.size(), net::kShortestToken));
  }
  if (const std::size_t members = setup.racks ? setup.racks->size() : setup.hosts.size();
      members > PASSING_MAX_MEMBERS) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("there are {} {}: the switch takes at most {}; set PASSING_STRATEGY to "
                            "ring_hierarchical",
                            members, setup.racks ? "racks" : "hosts", PASSING_MAX_MEMBERS));
  }
  return {};
}

// The lane of this rank: with the same rank of all other hosts, or, by racks, with the host in the same place
// of each. None: hosts in other places of the rack do it.
Expected<std::unique_ptr<Uplink>> join(const Setup& setup, std::uint32_t lanes) {
  const Hosts& hosts = setup.hosts;
  const bool alone = hosts.most() == 1;
  const auto& racks = setup.racks;
  if (racks && racks->position >= racks->fewest()) return nullptr;
  const auto ranks = racks ? racks->column(hosts, racks->position, hosts.index) : hosts.row(hosts.index);
  net::Member::Options options = member_options(setup);
  options.size = static_cast<std::uint32_t>(ranks.size());
  options.rank = racks ? racks->own : hosts.own;
  if (!alone) options.job += fmt::format(".lane{}", hosts.index);
  if (racks) options.job += fmt::format(".place{}", racks->position);
  if (!alone || racks) {
    options.lanes = 1;
    if (options.slots == 0) options.slots = std::bit_floor(kSlots / lanes);
  }
  options.names.clear();
  for (const std::uint32_t rank : ranks) options.names.push_back(setup.names[rank]);
  return Uplink::join(options, ranks);
}

}  // namespace

Expected<std::unique_ptr<Strategy>> make_passing(const Setup& setup) {
  const Hosts& hosts = setup.hosts;
  std::unique_ptr<Uplink> uplink;
  std::uint32_t lanes = 1;
  const bool alone = hosts.most() == 1;
  if (!alone) {
    const auto chosen = lanes_of(setup);
    if (!chosen) return tl::unexpected(chosen.error());
    lanes = *chosen;
  }
  const bool across = setup.racks ? setup.racks->size() > 1 : hosts.size() > 1;
  const bool switched = across && (!setup.plan || setup.plan->uses_switch());
  // Also where this rank needs no way to the switch itself: all ranks say the same.
  if (auto good = switched ? check(setup) : Expected<void>(); !good) return tl::unexpected(good.error());
  if (switched && hosts.index < lanes) {
    auto joined = join(setup, lanes);
    if (!joined) return tl::unexpected(joined.error());
    uplink = std::move(*joined);
  }
  return std::make_unique<Passing>(setup, std::move(uplink), lanes);
}

}  // namespace passing::strategy
