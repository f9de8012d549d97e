// What this rank and its left neighbour call: the same, or who called what. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "strategy/call.h"

namespace passing {

/// The same call, some times in a row: training repeats itself.
struct LedgerCall {
  strategy::Signature signature;
  std::string counts;  ///< of the v-forms, in words
  std::uint64_t times = 1;
};

/// Compares each collective of this rank with what the left neighbour announces, in order, and keeps what has
/// yet to be announced to the right one. All ranks form a ring, so any two that differ have two neighbours
/// between them that do. Owned by one thread.
class CallLedger {
 public:
  /// The first difference: collective `number` (from 0), as the left neighbour and this rank called it.
  struct Difference {
    std::uint64_t number = 0;
    LedgerCall theirs;
    LedgerCall mine;
  };

  void call(LedgerCall call);
  void announced_by_left(LedgerCall call);
  /// As far as both are known. After a difference there is nothing more to compare.
  std::optional<Difference> compare();

  std::uint64_t called() const { return called_; }
  std::uint64_t unannounced() const { return unannounced_calls_; }
  /// For the right neighbour.
  std::deque<LedgerCall> take_unannounced() {
    unannounced_calls_ = 0;
    return std::exchange(unannounced_, {});
  }

 private:
  static void append(std::deque<LedgerCall>& calls, LedgerCall call);

  std::deque<LedgerCall> unannounced_;
  std::uint64_t unannounced_calls_ = 0;
  std::deque<LedgerCall> mine_;    // not yet compared
  std::deque<LedgerCall> theirs_;  // the same
  std::uint64_t compared_ = 0;
  std::uint64_t called_ = 0;
};

}  // namespace passing
