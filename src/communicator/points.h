// Messages of the user's from one rank to another: send and recv.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "communicator/operation.h"
#include "communicator/witness.h"

namespace passing {

/// Those that have begun. What fails here fails alone, unless its buffer cannot be had back: then the group
/// does. A turn costs the same with 10 and with 10,000 of them. Owned by one thread at a time.
class Points {
 public:
  Points(Group& group, Witness& witness) : group_(group), witness_(witness) {}

  void begin(const StatePtr& state);
  /// Ends those whose message has come, or has gone.
  void check();
  bool empty() const { return pending_.empty() && ended_.empty(); }
  /// check() would end one.
  bool some_ended() const { return !ended_.empty(); }

  /// False: it cannot be taken back. A recv ends with `error`, once its buffer is free.
  bool cancel(const StatePtr& state, const Error& error);
  /// What that rank has sent has come: nothing more will.
  void on_left();
  void check_time(Time now);
  Time next_wake() const;

  /// Ends all that are left. The carrier is gone.
  void end_all(const Error& error);

 private:
  struct Point {
    StatePtr state;
    net::TransferPtr transfer;
    std::optional<Error> given_up;  // why it has been cancelled
    Time next = 0;                  // its deadline; given up: when that takes the group with it
  };
  using Place = std::list<Point>::iterator;

  void on_transfer_end(Place point);
  void look_again_at(Point& point, Time next);
  void tell_due();
  void give_up(Point& point, Error error, Time now);
  void give_up_on_left(Point& point);
  void expect_from(std::uint32_t rank);
  bool gone(std::uint32_t rank) const;
  std::string name_of(std::uint32_t rank) const;
  static std::vector<std::uint16_t> members(std::uint32_t rank);
  Expected<void> outcome(const Point& point) const;

  Group& group_;
  Witness& witness_;
  std::list<Point> pending_;
  std::list<Point> ended_;                     // whose transfers have, for check()
  std::set<std::pair<Time, Point*>> by_time_;  // of the pending
  std::size_t given_up_ = 0;                   // of the pending
  bool told_due_ = false;
};

}  // namespace passing
