// Judges faults of a group of ranks: docs/faults.md. No I/O, no clock, no thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "judge/board.h"
#include "judge/record.h"

namespace passing::judge {

/// How long things take, at most: section 4 to 6.
constexpr Duration kExplanation = 250 * kMillisecond;
constexpr Duration kAnswer = 350 * kMillisecond;
constexpr Duration kSettle = 100 * kMillisecond;
constexpr Duration kSettleMost = 350 * kMillisecond;
constexpr Duration kSettlePatient = kSecond;
/// Nothing is held longer after a deadline: a decision must follow within a second of it.
constexpr Duration kHeldMost = kSecond - kSettleMost;
constexpr Duration kPace = 5 * kMillisecond;

/// What the group does now.
struct Decision {
  /// Later also: go on in a new epoch, go on with these survivors.
  enum class Way : std::uint8_t { fail };
  Way way = Way::fail;
  Error error;
};

/// The oldest operation of this rank that has not ended.
struct Turn {
  std::uint64_t number = 0;
  Time since = 0;
  Time deadline = 0;
  Duration patience = 0;  ///< so long after the deadline someone else may still find out who is missing

  bool operator==(const Turn&) const = default;
};

/// To a neighbour.
struct Message {
  std::uint32_t to = 0;
  std::string data;
};

/// One rank's part. After every call the caller sends what next_message() gives, looks at decision(), and
/// comes back with step() at next_timer(). Owned by one thread.
class Judge {
 public:
  struct Group {
    std::uint32_t rank = 0;
    std::uint32_t size = 1;
    std::vector<std::string> names;                           ///< by rank
    std::function<std::string(std::uint64_t)> describe;       ///< an operation of this rank, for messages
    std::function<std::vector<std::uint16_t>()> waiting_for;  ///< ranks that the oldest operation waits for
  };
  explicit Judge(Group group);
  /// Those that are no ranks, but may be waited for: their numbers come after those of the ranks.
  void add_names(const std::vector<std::string>& servers) {
    group_.names.insert(group_.names.end(), servers.begin(), servers.end());
  }

  // What this rank does. These are called for every operation, and cost next to nothing.
  void called(std::uint64_t collectives) { called_ = collectives; }
  void turn(const Turn& turn) {
    if (inquiry_ && inquiry_->number != turn.number) inquiry_.reset();  // that one came, late or not
    turn_ = turn;
    if (said_idle_) renew_record();  // others would take it for absent
  }
  void idle() {
    inquiry_.reset();
    turn_.reset();
  }
  /// A message of this rank's that only a decision can end is late: it wants one by then. INT64_MAX: none is.
  void due(Time by) { due_ = by; }

  // What it sees.
  void hear(Time now, std::uint32_t from, const std::string& data);
  /// A connection broke: one for control, or one for data.
  enum class Link : std::uint8_t { control, data };
  void lost(Time now, std::uint32_t rank, const std::string& reason, Link link);
  /// Certain: needs no other explanation.
  void problem(Time now, Error error, bool certain);
  void leave(Time now);
  void step(Time now);

  /// INT64_MAX: none.
  Time next_timer() const;
  std::optional<Message> next_message();
  const std::optional<Decision>& decision() const { return decision_; }
  /// Something is wrong, or may be.
  bool is_troubled() const { return best_ || inquiry_ || !suspicions_.empty(); }
  /// In order: it has said so.
  bool has_left(std::uint32_t rank) const { return board_.of(rank).left; }
  /// There will be a decision soon.
  bool has_proposal() const { return best_.has_value(); }
  /// After a decision: every neighbour that can be reached knows.
  bool all_know() const;

 private:
  // Something that looks wrong, and may still be explained by a message under way.
  struct Suspicion {
    Time due = 0;
    std::uint64_t round = 0;  // who has answered this lives
    Error error;
    std::optional<std::uint16_t> lost;
    bool again = false;  // the second roll call, for one that has answered the first
  };
  // The roll call for a deadline.
  struct Inquiry {
    std::uint64_t number = 0;
    std::uint64_t round = 0;
    Time due = 0;         // when it is judged,
    bool judged = false;  // or has been: everyone is in the middle of it
  };
  struct Neighbour {
    std::uint32_t rank = 0;
    bool confirmed = false;  // has told the best proposal
    bool told = false;       // has told any
    Time paced = INT64_MIN;  // when it was last sent records
  };

  void open_round(Time now);
  void renew_record();
  void on_proposal(Time now, std::size_t from, Proposal proposal);
  void propose(Time now, Error error);
  Time held_until(Time now) const;
  bool ask_again(Time now, Suspicion& suspicion);
  Error verdict(Time now, const Suspicion& suspicion) const;
  void check_suspicions(Time now);
  void check_left(Time now);
  void check_deadline(Time now);
  Time settled() const;
  void check_settled(Time now);
  void send_records(Time now);

  Time opening() const;
  bool can_reach(std::uint32_t rank) const;
  bool answered(std::uint32_t rank, std::uint64_t round) const;
  std::vector<std::uint16_t> dead(std::uint64_t round) const;
  std::vector<std::uint16_t> absent(std::uint64_t round, std::uint64_t number) const;
  std::vector<std::uint16_t> silent(std::uint64_t round, std::uint64_t number) const;
  std::uint64_t lowest_turn(std::uint64_t round) const;
  std::optional<Error> who_is_dead(std::uint64_t round) const;
  std::optional<Error> who_is_missing(Time now, std::uint64_t round) const;
  std::vector<std::uint16_t> stuck() const;
  Error late(Time now, std::vector<std::uint16_t> who, const char* why) const;
  // That have left without calling operation `number`.
  std::vector<std::uint16_t> left_before(std::uint64_t number) const;
  std::string names_of(const std::vector<std::uint16_t>& ranks) const;
  std::size_t index_of(std::uint32_t rank) const;
  std::vector<std::uint16_t> unconfirmed() const;

  Group group_;
  std::vector<Neighbour> neighbours_;
  Board board_;
  std::uint64_t round_ = 0;
  std::uint64_t called_ = 0;
  std::optional<Turn> turn_;
  Time due_ = INT64_MAX;
  bool leaving_ = false;
  bool someone_left_ = false;
  bool said_idle_ = false;                     // in its last record
  std::map<std::uint16_t, std::string> lost_;  // connections of this rank that broke, and why,
  std::set<std::uint16_t> unreachable_;        // and those for control
  std::vector<Suspicion> suspicions_;
  std::optional<Inquiry> inquiry_;
  std::optional<Proposal> best_;
  Time proposed_ = 0;  // when the first one was heard
  std::optional<Decision> decision_;
  std::deque<Message> outbox_;
};

}  // namespace passing::judge
