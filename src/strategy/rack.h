// Sums of the hosts of a rack, before they go to the switch: docs/collectives.md.
#pragma once

#include "strategy/hierarchical.h"
#include "strategy/uplink.h"

namespace passing::strategy {

/// The hosts of a rack cut each leg into parts; each sums one of them over the rack and takes it to the
/// switch, so that the rack's uplink carries every gradient once each way. Where there is one rack, that is
/// all.
class RackAcross : public Across {
 public:
  /// `uplink` may be null where this rank owns no part, or there is one rack.
  RackAcross(Hosts hosts, Racks racks, Uplink* uplink, std::uint32_t ranks, std::uint32_t lanes)
      : hosts_(std::move(hosts)), racks_(std::move(racks)), uplink_(uplink), ranks_(ranks), lanes_(lanes) {}

  std::uint32_t owners(const Call& call) const override;
  std::size_t leg(const Call& call) const override;
  std::size_t legs_at_once() const override;
  Task carry(Context& context, const Call& call, const Leg& leg) override;

 private:
  struct Part;
  Part part(const Call& call, const Leg& leg, std::size_t position) const;
  Task finish_own(Context& context, const Call& call, const Leg& leg, std::uint32_t channel);

  Hosts hosts_;
  Racks racks_;
  Uplink* uplink_;
  std::uint32_t ranks_;  // of the group: what an average divides by
  std::uint32_t lanes_;
};

}  // namespace passing::strategy
