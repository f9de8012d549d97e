// Collectives, from the first step to the last.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/operation.h"
#include "communicator/witness.h"
#include "strategy/context.h"
#include "strategy/task.h"

namespace passing {

/// Runs them in the order in which they were called, several at a time. Owned by one thread at a time.
class Runner {
 public:
  Runner(Group& group, Witness& witness) : group_(group), witness_(witness) {}

  void add(const StatePtr& state) { queue_.push_back(state); }
  /// Begins what may begin, and runs it as far as it goes; ends what has ended.
  void run();

  bool empty() const { return running_.empty() && queue_.empty(); }
  bool is_running() const { return !running_.empty(); }
  /// run() would do something, although nothing has come.
  bool has_work() const;
  /// All that is under way, and what comes next, needs only memory that ranks share.
  bool stays_in_host() const;
  /// The same of the next one alone, if there is one.
  bool next_stays_in_host() const;

  /// The oldest that has not ended; null if there is none.
  const Operation::State* oldest() const;
  /// The rank whose message the oldest one waits for, if it waits for one.
  std::optional<std::uint32_t> waits_for() const;
  /// All of them, once each.
  std::vector<std::uint16_t> waiting_for() const;
  /// Of the oldest one, as errors call it.
  std::string describe(std::uint64_t number) const;

  void check_time(Time now);
  Time next_wake() const { return expires_; }

  /// Ends all that are left. The carrier is gone, and the strategy has let go of buffers.
  void end_all(const Error& error);

 private:
  // Collectives that run at the same time: the next one fills what the last one leaves of the links.
  static constexpr std::size_t kAtOnce = 8;
  // One that has begun.
  struct Running {
    StatePtr state;
    std::unique_ptr<strategy::Context> context;
    strategy::Task task;
  };

  void begin(const StatePtr& state);
  void begin_task(const StatePtr& state);
  void resume_ready();
  void tell_turn();
  void on_problem(const Operation::State& state, Error error);
  void on_broken_transfer(const Operation::State& state, const net::Transfer& transfer);

  Group& group_;
  Witness& witness_;
  std::deque<StatePtr> queue_;  // those that have not begun
  std::deque<std::unique_ptr<Running>> running_;
  std::optional<std::uint64_t> turn_;  // the oldest, as the judge knows it,
  Time expires_ = INT64_MAX;           // and its deadline, until that has come
};

}  // namespace passing
