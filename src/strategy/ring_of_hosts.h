// Sums of hosts, from host to host.
#pragma once

#include "strategy/hierarchical.h"

namespace passing::strategy {

/// A ring of the hosts for each stripe. Also for what the switch cannot sum.
class RingOfHosts : public Across {
 public:
  RingOfHosts(Hosts hosts, std::uint32_t ranks, std::uint32_t lanes)
      : hosts_(std::move(hosts)), ranks_(ranks), lanes_(lanes) {}

  std::uint32_t owners(const Call& call) const override;
  std::size_t leg(const Call& call) const override;
  std::size_t legs_at_once() const override;
  Task carry(Context& context, const Call& call, const Leg& leg) override;

 private:
  Hosts hosts_;
  std::uint32_t ranks_;  // of the group: what an average divides by
  std::uint32_t lanes_;
};

}  // namespace passing::strategy
