// A group of judges over a simulated network, from a seed: docs/faults.md section 8.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "judge/judge.h"
#include "rehearse/random.h"

namespace passing::judge {

enum class Fault : std::uint8_t {
  none,
  kill,
  kill_host,
  kill_neighbours,
  stop,
  pause,
  partition,
  healing,
  absent,
  late,
  cancel,
  refused,
  leave,
  broken_link,
  switch_down,  // alone: nobody is to blame
  stuck,        // everyone is in the middle of it, and what the culprit sends does not come
  differ,       // one of two sees a message of another length
};
const char* to_string(Fault fault);

/// What happens in one run.
struct Scenario {
  static Scenario from_seed(std::uint64_t seed);
  std::string describe() const;

  std::uint64_t seed = 0;
  std::uint32_t ranks = 2;
  std::uint32_t operations = 1;
  Duration timeout = kSecond;
  double loss = 0;  // of segments, which then come 200 to 400 ms late
  double slow = 0;  // of connections, which take 20 to 40 ms
  Fault fault = Fault::none;
  std::set<std::uint32_t> culprits;
  Time at = 0;                    // when it happens
  Duration lasts = 0;             // of a pause or a partition that heals
  std::optional<Time> switch_at;  // from then on the switch is in trouble
  bool answers = false;           // stuck: asked after the deadline, the switch knows who
  bool compared = false;          // differ: the other one finds it by comparing calls
  bool stalls = false;            // the last operation does not complete, whatever else happens
};

/// How a run went. `problem` is empty if everything is as it must be.
struct Outcome {
  std::string problem;
  std::set<std::string> probes;  // rare things that happened
  std::uint32_t most_hops = 0;   // of a proposal
};

class World {
 public:
  explicit World(const Scenario& scenario);
  Outcome run();

 private:
  enum class Shape : std::uint8_t { all, ring, broadcast, network };
  struct Rank {
    std::unique_ptr<Judge> judge;
    bool dead = false, stopped = false, leaving = false, left = false, decided_closed = false;
    std::uint64_t called = 0, ended = 0;
    std::vector<Time> called_at, ended_at;
    std::optional<Decision> decision;
    Time decided_at = 0;
    Time turn_since = 0;
    Time dead_at = 0;
    std::optional<Time> complained_at;        // of the switch, or held back otherwise
    std::vector<std::function<void()>> held;  // what comes while it is stopped
  };
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Proposed {
    Time at = 0;
    std::uint32_t proposer = 0;
    Error error;
    std::uint64_t number = 0;  // the proposer's oldest operation
    bool idle = false;
    std::map<std::uint32_t, std::uint32_t> hops;
  };

  void at(Time when, std::function<void()> what);
  void schedule_calls(std::uint32_t rank, std::uint64_t number);
  void schedule_fault();
  void strike(std::uint32_t rank, Time when);
  void call(std::uint32_t rank);
  void set_turn(std::uint32_t rank);
  void check_complete();
  bool complete(std::uint32_t rank, std::uint64_t number) const;
  std::vector<std::uint32_t> needs(std::uint32_t rank, std::uint64_t number) const;
  void end(std::uint32_t rank, std::uint64_t number);
  void leave(std::uint32_t rank);
  void to(std::uint32_t rank, std::function<void()> what);
  void pump(std::uint32_t rank);
  void send(std::uint32_t from, const Message& message);
  void note_proposal(std::uint32_t from, std::uint32_t to, const std::string& data);
  Duration delay(std::uint32_t from, std::uint32_t to);
  bool apart(std::uint32_t a, std::uint32_t b) const;
  Duration patience(std::uint64_t number) const;
  bool is_last(std::uint64_t number) const { return number + 1 == scenario_.operations; }
  void complain(std::uint32_t rank, Error error, bool certain);
  void complain_of_switch(std::uint32_t rank);
  void ask_switch(std::uint32_t rank);
  void see_difference();
  void close_connections(std::uint32_t rank, bool control, const char* why);
  void check(Outcome& outcome) const;
  std::string check_ends() const;
  std::string check_agreement() const;
  std::string check_innocence() const;
  std::string check_held() const;
  std::string check_patience() const;
  std::string check_named_instead() const;
  std::string check_word() const;
  Time judged_at(const Rank& rank) const;
  void note_switch(Outcome& outcome) const;
  bool guilty(std::uint32_t rank, const Proposed& proposed) const;
  bool survivor(std::uint32_t rank) const;

  Scenario scenario_;
  rehearse::Random random_;
  Time now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  std::vector<Rank> ranks_;
  std::vector<Shape> shapes_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Time> arrivals_;  // of the last message, by connection
  std::map<std::pair<std::uint32_t, std::uint32_t>, Duration> base_;
  bool parted_ = false;
  bool switch_down_ = false;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::function<void()>>> parted_mail_;
  std::map<std::string, Proposed> proposals_;  // by what is on the wire
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::string>, int> carried_;
  std::vector<Time> wakes_;
  Outcome outcome_;
};

}  // namespace passing::judge
