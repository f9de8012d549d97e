// How an all-reduce is carried out. docs/architecture.md says how to add one.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "net/desk.h"
#include "passing/config.h"
#include "strategy/context.h"
#include "strategy/hosts.h"
#include "strategy/plan.h"
#include "strategy/task.h"

namespace passing::inhost {
class Host;
}

namespace passing::strategy {

/// One per communicator, used by its thread only. Those with sockets of their own override the second half.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// `call` and `context` outlive the task. At least 2 ranks and 1 element.
  virtual Task all_reduce(Context& context, const Call& call) = 0;

  /// Servers that are no ranks: the mesh knows them by the numbers after those of the ranks.
  virtual std::vector<net::Place> servers() const { return {}; }

  /// Has descriptors of its own.
  virtual bool has_sources() const { return false; }
  /// Adds descriptors to wait for.
  virtual void wait_on(std::vector<pollfd>& /*sources*/) {}
  /// Does what there is to do; `sources` are those of wait_on, after poll, or none.
  virtual void progress(std::span<const pollfd> /*sources*/) {}
  /// When progress() must be called although nothing has come.
  virtual std::optional<Time> next_timer() const { return std::nullopt; }
  /// Whether such a call needs nothing but memory that ranks share.
  virtual bool stays_in_host(const Call& /*call*/) const { return false; }
  /// Works on such calls only, for a while or until one of them can go on: for a thread that waits for it.
  virtual void work_in_host(Duration /*limit*/) {}
  /// The deadline of the oldest call has come, although its own may be later: others had their turn before.
  virtual void expire() {}
  /// So long after that the strategy may still find out who is missing.
  virtual Duration patience(const Call& /*call*/) const { return 0; }
  /// The communicator ends: in order,
  virtual void leave() {}
  /// or because of an error. Lets go of all buffers, and waits for nothing: someone waits to hear of it.
  virtual void abandon(const Error& /*reason*/) {}
};

/// What a strategy may need to begin.
struct Setup {
  const Config& config;
  std::vector<std::string> names;      ///< of the ranks
  Hosts hosts;                         ///< which of them share one
  std::shared_ptr<inhost::Host> host;  ///< what this rank shares with its neighbours, if it has any
  std::vector<std::string> servers;    ///< HOST:PORT of each
  std::string address;                 ///< of this rank's mesh
  std::optional<Racks> racks;          ///< where the local domain is a rack
  std::optional<Plan> plan;            ///< of auto
  std::uint64_t group = 0;             ///< what a mesh of this group must know
};

/// Whether ranks that share a host share memory too.
bool shares_memory(const std::string& name);
/// Whether it must know who shares a host.
bool needs_hosts(const std::string& name);
/// By name; returns when all ranks have made theirs, where that matters.
Expected<std::unique_ptr<Strategy>> make_strategy(const std::string& name, const Setup& setup);
std::unique_ptr<Strategy> make_ring();
std::unique_ptr<Strategy> make_halving_doubling();
Expected<std::unique_ptr<Strategy>> make_in_network(const Setup& setup);
/// In the host, then a ring of hosts.
Expected<std::unique_ptr<Strategy>> make_ring_hierarchical(const Setup& setup);
/// In the host, then the switch; auto: then the way that its plan chooses.
Expected<std::unique_ptr<Strategy>> make_passing(const Setup& setup);
/// With servers of its own; hierarchical: one push and pull per host.
Expected<std::unique_ptr<Strategy>> make_ps(const Setup& setup);
Expected<std::unique_ptr<Strategy>> make_ps_hierarchical(const Setup& setup);
/// Every host serves a part.
std::unique_ptr<Strategy> make_ps_sharded(const Setup& setup);

/// The two halves of halving_doubling, for a power of two of ranks. What this rank gives to all_gather is in
/// its place already.
Task halving_reduce_scatter(Context& context, const Call& call);
Task doubling_all_gather(Context& context, const Call& call);
/// All of it, for any number of ranks.
Task doubling_all_reduce(Context& context, const Call& call);
/// The ring, for strategies that leave some reductions to it.
Task ring_all_reduce(Context& context, const Call& call, std::uint32_t channel = 0);

// Collectives that are the same in all strategies: docs/collectives.md.
Task reduce(Context& context, const Call& call);
Task reduce_scatter(Context& context, const Call& call);
Task all_gather(Context& context, const Call& call);
Task gather(Context& context, const Call& call);
Task scatter(Context& context, const Call& call);
Task all_to_all(Context& context, const Call& call);
Task broadcast(Context& context, const Call& call);
Task barrier(Context& context);
/// Everyone's blob to everyone.
Task exchange(Context& context, Call& call);

}  // namespace passing::strategy
