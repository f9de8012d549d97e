// How a communicator ends: in order, after a failure, or without even the memory to say why.
#pragma once

#include "communicator/operation.h"
#include "communicator/points.h"
#include "communicator/runner.h"
#include "communicator/witness.h"

namespace passing {

/// The last that is done with a group. Buffers are let go of first, then operations end, so that no buffer of
/// theirs is touched any more; others are told before anything that may take its time. Every wait here has a
/// limit.
class Farewell {
 public:
  Farewell(Group& group, Witness& witness, Runner& runner, Points& points, Mailbox& mailbox,
           std::vector<StatePtr>& untaken)
      : group_(group),
        witness_(witness),
        runner_(runner),
        points_(points),
        mailbox_(mailbox),
        untaken_(untaken) {}

  /// Stays until all neighbours know why.
  void fail(const Error& error);
  /// Others see the connections go.
  void end_without_memory(const Error& error) noexcept;
  /// Nothing is under way but messages of the user's.
  void leave();

 private:
  void tell_others();
  void await_others(Duration limit);
  void drop_data();
  void end_operations(const Error& error);

  Group& group_;
  Witness& witness_;
  Runner& runner_;
  Points& points_;
  Mailbox& mailbox_;
  std::vector<StatePtr>& untaken_;  // operations that never began
};

}  // namespace passing
