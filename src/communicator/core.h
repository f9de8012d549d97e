// The work of a communicator, turn by turn.
#pragma once

#include <poll.h>

#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "communicator/operation.h"
#include "communicator/points.h"
#include "communicator/runner.h"
#include "communicator/witness.h"

namespace passing {

/// Connections of strangers at a rank's two doors, by what ended them: docs/mesh.md.
struct Strangers {
  net::Refused data;
  net::Refused control;
};

/// Takes the mail, moves messages, runs collectives, looks at the clock. Has no lock and no thread: Turns
/// calls it, for one thread at a time.
class Core {
 public:
  Core(std::unique_ptr<Group> group, std::unique_ptr<Witness> witness, Mailbox& mailbox);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const Group& group() const { return *group_; }
  Strangers strangers() const;
  /// There is no more to do but to finish().
  bool failed() const { return witness_->failure().has_value(); }
  /// Nothing is under way.
  bool is_idle() const { return runner_.empty() && points_.empty(); }
  /// It needs nobody: no operation is under way, and nothing looks wrong.
  bool can_rest() const { return is_idle() && !failed() && !witness_->is_troubled(); }

  /// Does all that can be done now. `sources` are those of prepare(), after the wait, or empty; `post`: the
  /// mailbox is known to be readable.
  void turn(bool post, std::span<const pollfd> sources);
  /// Before a wait: announces what must be known by now, adds what is waited on, and says how long there is
  /// nothing to do.
  Duration prepare(std::vector<pollfd>& sources);
  /// For who waits. If all that is under way needs only shared memory, so does whoever waits for it: sockets
  /// are looked at when nothing has come for a while. False: there is something else.
  bool work_in_host();
  /// For who waits: looks for the message that is waited for; `around`: for everything.
  void look(bool around);
  /// What has just been submitted.
  void begin();

  /// Memory that there is not fails the group, not the process. False: what has thrown must not go on, or it
  /// would end as if nothing had happened.
  template <class Body>
  bool guarded(const Body& body) {
    try {
      body();
      return true;
    } catch (const std::exception& problem) {
      on_exception(problem);
      return false;
    }
  }

  /// The end, in order or after a failure. Ends all operations.
  void finish();

 private:
  void take_post(bool readable);
  void on_cancelled(const StatePtr& state);
  void begin_in_host();
  void check_time();
  bool has_work() const;
  Time next_wake() const;
  void on_exception(const std::exception& problem);
  void come_to_a_verdict();

  std::unique_ptr<Group> group_;
  std::unique_ptr<Witness> witness_;
  Mailbox& mailbox_;
  Runner runner_;
  Points points_;
  std::vector<StatePtr> untaken_;  // what could not be begun for want of memory, and ends with the rest
  unsigned turns_ = 0;
};

}  // namespace passing
