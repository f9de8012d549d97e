// Strategies that sum in the host first, then across hosts: docs/collectives.md.
#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "inhost/operation.h"
#include "strategy/hosts.h"
#include "strategy/strategy.h"

namespace passing::strategy {

/// A stretch of a stripe on its way across hosts. All hosts cut their stripes alike.
struct Leg {
  const void* sums = nullptr;  ///< of this host, in the wide type: float32 for narrow floats
  void* results = nullptr;     ///< in the type; the sums themselves where that is the wide type, or apart
  std::size_t first = 0;       ///< its first element in the stripe
  std::size_t count = 0;
};

/// How the sums of hosts are summed. Only those that own a stripe take part. One per communicator.
class Across {
 public:
  virtual ~Across() = default;
  /// So many ranks of each host own a stripe: from sizes alone, the same on all ranks.
  virtual std::uint32_t owners(const Call& call) const = 0;
  /// The longest leg, in elements: whole blocks.
  virtual std::size_t leg(const Call& call) const = 0;
  /// So many legs of a call may be under way; they begin in order.
  virtual std::size_t legs_at_once() const = 0;
  virtual Task carry(Context& context, const Call& call, const Leg& leg) = 0;
};

/// How many stripes there can be: what the settings say, or as many as every host has ranks, at most 4.
Expected<std::uint32_t> lanes_of(const Setup& setup);

/// So many ranks of a host are worth a stripe each, if that is to have `stripe_bytes`.
inline std::uint32_t owners_for(const Call& call, std::size_t stripe_bytes, std::uint32_t lanes) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(call.bytes() / stripe_bytes, 1, lanes));
}

/// The host's half, and what drives both. Derived classes say how it goes on from there.
class Hierarchical : public Strategy {
 public:
  /// `host` is null where this rank has no neighbours.
  Hierarchical(Hosts hosts, std::shared_ptr<inhost::Host> host)
      : hosts_(std::move(hosts)), host_(std::move(host)) {}

  Task all_reduce(Context& context, const Call& call) override;
  bool has_sources() const override { return host_ != nullptr; }
  void wait_on(std::vector<pollfd>& sources) override;
  void progress(std::span<const pollfd> sources) override;
  std::optional<Time> next_timer() const override;
  bool stays_in_host(const Call& call) const override {
    return call.signature.kind == Kind::all_reduce && host_ && !goes_across() && !reported_;
  }
  void work_in_host(Duration limit) override;

 protected:
  /// Whether the sums of hosts go anywhere; by default, where there are several.
  virtual bool goes_across() const { return hosts_.size() > 1; }
  virtual Across& across(const Call& call) = 0;
  const Hosts& hosts() const { return hosts_; }

 private:
  class Passage;
  void step_all();
  inhost::Awaited awaited() const;

  Hosts hosts_;
  std::shared_ptr<inhost::Host> host_;
  std::list<Passage*> passages_;  // in the order of their calls
  bool restless_ = false;         // there may be something to do at once
  bool asleep_ = false;           // neighbours have been told to ring
  bool reported_ = false;         // the host is in trouble, and its word has been passed on
};

}  // namespace passing::strategy
