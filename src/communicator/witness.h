// Between a group and its judge: brings him what happens, and passes on what he says (docs/faults.md).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "communicator/call_ledger.h"
#include "communicator/group.h"
#include "judge/judge.h"

namespace passing {

/// Announces every collective to the right neighbour, so that a rank that calls something else is found out
/// by its left one, whatever pattern of messages the two would have used. Keeps the judge's decision, and
/// does nothing about it: that is Core's business. Owned by one thread at a time.
class Witness {
 public:
  /// What he asks of others; empty until there are collectives.
  struct Questions {
    std::function<std::string(std::uint64_t)> describe;       ///< an operation, by its number
    std::function<std::vector<std::uint16_t>()> waiting_for;  ///< ranks that the oldest operation waits for
    std::function<void(std::uint32_t)> on_left;               ///< a rank will send nothing more
  };

  /// The names of the group's ranks are known.
  explicit Witness(Group& group);
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  void ask(Questions questions) { questions_ = std::move(questions); }
  void add_server(const std::string& name) { judge_.add_names({name}); }

  // What this rank does.
  void called(const strategy::Call& call);
  std::uint64_t unannounced() const { return ledger_.unannounced(); }
  /// Soon, but not one by one where many small ones follow each other.
  void announce();
  void turn(const judge::Turn& turn) { judge_.turn(turn); }
  void idle() { judge_.idle(); }
  void due(Time by) { judge_.due(by); }
  void leave();

  // At the beginning: docs/faults.md section 9.
  void founding_step(std::uint64_t step, Time deadline);
  void founded();
  void tell_ready(std::uint64_t step, std::uint32_t round);
  bool heard_ready(std::uint64_t step, std::uint32_t round) const { return (ready_[step] >> round & 1) != 0; }

  // What it sees. All of these may be called from within a collective.
  /// Needs no other explanation.
  void fail(Error error) { problem(std::move(error), true); }
  void problem(Error error, bool certain);
  /// On the connections for control, and for data. Messages come first: they may explain why a connection has
  /// gone.
  void hear_control();
  void hear_data();
  /// What of the latter concerns connections; may be needed before it is time to hear messages.
  void note_lost();

  // Time.
  Time next_timer() const { return judge_.next_timer(); }
  /// What has come is heard before anyone is called silent.
  void step(Time now);
  /// Works on messages alone, until it is done or the time is over.
  void settle(Duration limit, const std::function<bool()>& done);
  /// Something is wrong, and this rank is about to end: all shall know the same reason.
  void await_decision();
  /// After that: stays until every neighbour that can be reached knows.
  void await_all_know();

  // What comes of it.
  /// Passes on what the judge has to say, and adopts what he has decided.
  void heed();
  const std::optional<Error>& failure() const { return failure_; }
  /// Without the judge: the first reason counts.
  void set_failure(Error error) {
    if (!failure_) failure_ = std::move(error);
  }
  bool is_troubled() const { return judge_.is_troubled(); }
  bool has_proposal() const { return judge_.has_proposal(); }

 private:
  void on_control(std::uint32_t from, const ControlMessage& message);
  void compare_calls();
  void left(std::uint32_t rank);
  void note_gone();
  std::string describe(std::uint64_t number) const;

  Group& group_;
  Questions questions_;
  CallLedger ledger_;
  judge::Judge judge_;
  std::vector<std::uint32_t> gone_;  // ranks whose connection for data broke, and that may have left in order
  std::optional<Error> failure_;
  std::array<std::uint64_t, Group::kFoundingSteps + 1> ready_{};  // by step, the rounds that were heard of
};

}  // namespace passing
