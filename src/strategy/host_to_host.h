// Sums of hosts, from host to host.
#pragma once

#include "strategy/hierarchical.h"

namespace passing::strategy {

/// Without a switch, and for what the switch cannot sum.
class HostToHost : public Across {
 public:
  HostToHost(Hosts hosts, std::uint32_t ranks) : hosts_(std::move(hosts)), ranks_(ranks) {}

  Task carry(Context& context, const Call& call, const Leg& leg) override;

 protected:
  /// The all-reduce of a leg among the hosts.
  virtual Task reduce(Context& context, const Call& call, std::uint32_t channel) = 0;
  /// Narrow floats travel as they are, rounded after every host, and not as float32: half the bytes.
  virtual bool stays_narrow() const { return false; }
  const Hosts& hosts() const { return hosts_; }

 private:
  Hosts hosts_;
  std::uint32_t ranks_;  // of the group: what an average divides by
};

/// A ring of the hosts for each stripe: every link is busy all the time.
class RingOfHosts : public HostToHost {
 public:
  RingOfHosts(const Hosts& hosts, std::uint32_t ranks, std::uint32_t lanes)
      : HostToHost(hosts, ranks), lanes_(lanes) {}

  std::uint32_t owners(const Call& call) const override;
  std::size_t leg(const Call& call) const override;
  std::size_t legs_at_once() const override;

 private:
  Task reduce(Context& context, const Call& call, std::uint32_t channel) override {
    return ring_all_reduce(context, call, channel);
  }

  std::uint32_t lanes_;
};

/// The same in 16 bits, for float16 and bfloat16.
class NarrowRingOfHosts : public RingOfHosts {
 public:
  using RingOfHosts::RingOfHosts;

 private:
  bool stays_narrow() const override { return true; }
};

/// For few bytes: fewer steps, by one rank of each host.
class DoublingOfHosts : public HostToHost {
 public:
  using HostToHost::HostToHost;

  std::uint32_t owners(const Call& /*call*/) const override { return 1; }
  std::size_t leg(const Call& call) const override { return call.signature.count; }
  std::size_t legs_at_once() const override { return 1; }

 private:
  Task reduce(Context& context, const Call& call, std::uint32_t /*channel*/) override {
    return doubling_all_reduce(context, call);
  }
};

}  // namespace passing::strategy
