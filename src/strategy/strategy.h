// How an all-reduce is carried out. docs/architecture.md says how to add one.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "passing/config.h"
#include "strategy/context.h"
#include "strategy/task.h"

namespace passing::strategy {

/// One per communicator, used by its thread only. Those with sockets of their own override the second half.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// `call` and `context` outlive the task. At least 2 ranks and 1 element.
  virtual Task all_reduce(Context& context, const Call& call) = 0;

  /// Adds descriptors to wait for.
  virtual void wait_on(std::vector<pollfd>& /*sources*/) {}
  /// Does what there is to do; `sources` are those of wait_on, after poll, or none.
  virtual void progress(std::span<const pollfd> /*sources*/) {}
  /// When progress() must be called although nothing has come.
  virtual std::optional<Time> next_timer() const { return std::nullopt; }
  /// Watches deadlines itself, with a better idea of who is missing: the communicator gives it time.
  virtual bool watches_deadlines() const { return false; }
  /// The communicator ends: in order, or because of an error.
  virtual void leave() {}
  virtual void abandon(const Error& /*reason*/) {}
};

/// What a strategy may need to begin.
struct Setup {
  const Config& config;
  std::vector<std::string> names;  ///< of the ranks
};

/// By name; returns when all ranks have made theirs, where that matters.
Expected<std::unique_ptr<Strategy>> make_strategy(const std::string& name, const Setup& setup);
std::unique_ptr<Strategy> make_ring();
Expected<std::unique_ptr<Strategy>> make_in_network(const Setup& setup);

// Collectives that are the same in all strategies.
Task broadcast(Context& context, const Call& call);
Task barrier(Context& context);
/// Everyone's blob to everyone.
Task exchange(Context& context, Call& call);

}  // namespace passing::strategy
