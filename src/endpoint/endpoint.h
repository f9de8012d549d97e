// A member of a job: its lanes as one. docs/protocol.md sections 5.1 and 8.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "endpoint/lane.h"

namespace passing::endpoint {

/// How an operation ended.
struct Completion {
  std::uint64_t number = 0;
  Expected<void> outcome;
};

/// The member's side of one epoch of a job. No I/O, no clock, no thread: one thread at a time.
/// After every call that returns nothing else to do, the caller sends what next_packet gives for
/// each lane, takes next_completion, and comes back when something arrives or at next_timer.
class Endpoint {
 public:
  static Expected<std::unique_ptr<Endpoint>> create(Config config);

  /// Queues an operation on all lanes and returns its number. Refused after a failure, after
  /// leave(), and for input that cannot be right.
  Expected<std::uint64_t> submit(Operation operation);
  /// Takes a number for an operation that does not go through the switch (section 5.1).
  std::uint64_t reserve_number() { return next_number_++; }
  /// Leaves the job with everyone else (section 8.4): an operation like any other.
  Expected<std::uint64_t> leave(Time deadline);
  /// The deadline of everything that is pending is now, if it is later (section 8.3).
  void expire(Time now);
  /// The controller ended the epoch (section 8.5): everything incomplete fails with `reason`.
  void end_epoch(const Error& reason);

  void receive(Time now, std::uint32_t lane, const Address& from, wire::Bytes packet);
  /// See Lane::next_packet.
  std::size_t next_packet(Time now, std::uint32_t lane, std::byte* out);
  /// When to call next_packet again although nothing arrived.
  std::optional<Time> next_timer() const;
  /// The operations that ended, in order of submission.
  std::optional<Completion> next_completion();

  /// Nothing is pending.
  bool idle() const { return pending_.empty(); }
  /// Whom the oldest operation waits for, as far as the switch has told.
  std::vector<std::uint16_t> missing() const;

  const Config& config() const { return config_; }
  const Lane& lane(std::uint32_t which) const { return lanes_[which]; }

 private:
  explicit Endpoint(Config config);

  struct Pending {
    std::uint64_t index = 0;  // in the stream of operations
    std::uint64_t number = 0;
    Time deadline = 0;
  };

  Expected<std::uint64_t> enqueue(Operation operation);
  void check_deadlines(Time now);
  void find_earliest_deadline();
  void collect();
  void fail_from(std::uint64_t index, const Error& error);

  Config config_;
  numeric::Codec codec_;
  std::deque<Lane> lanes_;
  std::deque<Pending> pending_;
  std::deque<Completion> completions_;
  std::uint64_t next_number_ = 0;
  std::uint64_t next_index_ = 0;
  std::uint64_t abort_end_ = 0;         // operations before this have had their deadline
  Time earliest_deadline_ = INT64_MAX;  // of those that have not had theirs
  bool left_ = false;
  std::optional<Failure> failure_;
};

}  // namespace passing::endpoint
