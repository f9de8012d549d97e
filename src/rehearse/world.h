// Runs a scenario: real endpoints and the real aggregator over a simulated network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "dataplane/aggregator.h"
#include "endpoint/endpoint.h"
#include "rehearse/network.h"
#include "rehearse/scenario.h"
#include "rehearse/trace.h"

namespace passing::rehearse {

/// What a run came to. `problem` is empty if everything was as it must be.
struct Outcome {
  std::string problem;
  Time ended = 0;                ///< virtual time
  std::uint64_t operations = 0;  ///< that succeeded, over all members
  std::uint64_t failures = 0;    ///< that failed as they should
  std::uint64_t chunks = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t lost = 0;        ///< packets, by the network
  dataplane::Counters counters;  ///< of the switch
};

/// One simulated cluster. Deterministic: the same scenario gives the same run, packet by packet.
class World {
 public:
  explicit World(const Scenario& scenario, TraceSink trace = {});
  ~World();

  /// `progress` hears the share of operations that ended, now and then.
  Outcome run(const std::function<void(double)>& progress = {});

 private:
  struct Job;
  struct Member;
  enum class What : std::uint8_t { wake, crash, hear_of_crash, start, lose_switch };
  struct Event {
    Time at;
    std::uint64_t serial;
    What what;
    unsigned job;
    std::uint16_t member;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : serial > other.serial;
    }
  };

  void schedule(Time at, What what, unsigned job, std::uint16_t member);
  void install(Job& job);
  void start(Job& job, Member& member);
  void happen(const Event& event);
  void deliver(Delivery delivery);
  void deliver_to_switch(const Delivery& delivery);
  void crash(Job& job);
  void hear_of_crash(Job& job, Member& member);
  void pump(Job& job, Member& member);
  void submit_due(Job& job, Member& member);
  void take_completions(Job& job, Member& member);
  void record(Job& job, Member& member, std::size_t step, const Expected<void>& outcome);
  void depart(Job& job, Member& member);
  /// `job` and `member` are the end that is not the switch.
  void transmit(std::uint32_t to, const Address& from, unsigned job, std::uint16_t member,
                const std::byte* bytes, std::size_t size);
  bool finished() const;
  void problem(const std::string& text);
  void check_outcome(Job& job, Member& member, std::size_t step, const Expected<void>& outcome);
  void check_end();

  Scenario scenario_;
  TraceSink trace_;
  Random random_;
  Network network_;
  dataplane::Aggregator aggregator_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t serial_ = 0;
  Time now_ = 0;
  bool switch_lost_ = false;
  Outcome outcome_;
};

}  // namespace passing::rehearse
