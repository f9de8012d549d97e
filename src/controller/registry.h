// Which jobs there are, who is in them, and what they exchanged: docs/controller.md. No HTTP here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "controller/dataplane.h"

namespace passing::controller {

struct JoinRequest {
  std::string job;
  std::string token;
  std::uint32_t size = 0;
  std::uint32_t rank = 0;
  std::uint32_t lanes = 1;                    ///< 0: the members only meet, and nothing is installed
  std::uint32_t slots = 256;                  ///< per lane
  std::vector<net::SocketAddress> addresses;  ///< one per lane
  bool rejoin = false;                        ///< the earlier holder of the rank is dead: end its epoch
};

/// What a member must know to take part.
struct Membership {
  std::uint32_t job = 0;
  std::uint32_t epoch = 0;
  std::uint64_t key = 0;
};

/// Where a job stands, for one of its members.
struct MemberView {
  enum class State : std::uint8_t { forming, running, ended };
  State state = State::forming;
  std::vector<std::uint16_t> missing;  ///< ranks that have not joined; once ended, those it ended for
  std::vector<std::string> addresses;  ///< per rank, once running: for messages
  std::string reason;                  ///< why it ended
};

/// One row of `passing status`.
struct JobView {
  std::string name;
  std::string state;
  std::uint32_t size = 0;
  std::uint32_t epoch = 0;
  std::uint32_t lanes = 0;
  std::uint32_t slots = 0;
  std::vector<std::uint16_t> joined;
  std::uint32_t slots_in_use = 0;
  std::uint64_t completed = 0;
  std::vector<std::uint64_t> lag;
  std::vector<std::uint16_t> waiting_for;
  double waiting_seconds = 0;
  std::vector<std::string> addresses;
};

/// Admits members to jobs and jobs to the dataplane. Thread-safe; no call waits for other members.
class Registry {
 public:
  struct Options {
    Duration lease = 10 * kSecond;       ///< a member not heard of for so long is dead
    std::size_t blob_bytes = 16U << 20;  ///< per job
    std::size_t jobs = 4096;             ///< at once
  };

  Registry(dataplane::Dataplane& dataplane, const Options& options)
      : dataplane_(dataplane), options_(options) {}

  Expected<Membership> join(Time now, const JoinRequest& request);
  /// Also counts as a sign of life.
  Expected<MemberView> look(Time now, const std::string& job, std::uint64_t key, std::uint32_t rank);
  Expected<void> leave(const std::string& job, std::uint64_t key, std::uint32_t rank);
  /// The rendezvous primitive: everyone gives a blob, everyone gets all.
  Expected<void> give(const std::string& job, std::uint64_t key, std::uint32_t rank, const std::string& tag,
                      std::string blob);
  /// All blobs by rank, or the ranks that are missing.
  struct Blobs {
    std::vector<std::string> all;
    std::vector<std::uint16_t> missing;
  };
  Expected<Blobs> take(const std::string& job, std::uint64_t key, const std::string& tag);

  /// Declares the silent dead and notices who is waited for. Call about once a second.
  void housekeeping(Time now);
  /// Ends every job: its members hear `reason` when they next look.
  void end_all(const std::string& reason);
  /// Members that have not departed.
  std::size_t members_present();
  std::vector<JobView> view(Time now);
  dataplane::Totals totals();

 private:
  struct Member {
    bool joined = false;
    bool departed = false;
    Time heard = 0;
    std::vector<net::SocketAddress> addresses;

    // For messages; empty if it has none.
    std::string place() const { return addresses.empty() ? "" : net::to_string(addresses[0]); }
  };
  // One epoch of a job.
  struct Epoch {
    std::uint32_t number = 0;
    std::uint64_t key = 0;
    bool running = false;               // all have joined
    std::string ended;                  // why, if it has,
    std::vector<std::uint16_t> silent;  // and for whom: not heard of any more
    Time began = 0;
    std::vector<Member> members;
    std::map<std::string, std::map<std::uint32_t, std::string>> blobs;  // by tag, then rank
    std::size_t blob_bytes = 0;
    // Who the oldest chunk waits for, and since when that has been so.
    std::uint32_t oldest = 0;
    std::uint64_t missing = 0;
    Time missing_since = 0;
    dataplane::JobProgress progress;
  };
  struct Job {
    std::uint32_t id = 0;
    std::string token;
    std::uint32_t size = 0;
    std::uint32_t lanes = 0;
    std::uint32_t slots = 0;
    std::uint32_t epochs = 0;
    std::unique_ptr<Epoch> current;
    std::unique_ptr<Epoch> next;  // those who join while the current one ends
  };

  Expected<void> check(const JoinRequest& request) const;
  Expected<Job*> find_or_create(Time now, const JoinRequest& request) PASSING_REQUIRES(mutex_);
  Expected<Epoch*> place_for(Time now, Job& job, const JoinRequest& request) PASSING_REQUIRES(mutex_);
  Expected<Epoch*> authorised(const std::string& job, std::uint64_t key) PASSING_REQUIRES(mutex_);
  Expected<Epoch*> authorised_member(const std::string& job, std::uint64_t key, std::uint32_t rank)
      PASSING_REQUIRES(mutex_);
  std::unique_ptr<Epoch> new_epoch(Job& job, Time now) const;
  Expected<void> begin_if_complete(Job& job) PASSING_REQUIRES(mutex_);
  Expected<void> install(const Job& job, const Epoch& epoch) PASSING_REQUIRES(mutex_);
  static void vacate(Epoch& epoch, std::uint32_t rank);
  void depart(Job& job, Epoch& epoch, std::uint32_t rank) PASSING_REQUIRES(mutex_);
  void tidy(const std::string& name) PASSING_REQUIRES(mutex_);

  dataplane::Dataplane& dataplane_;
  Options options_;
  Mutex mutex_;
  std::map<std::string, Job> jobs_ PASSING_GUARDED_BY(mutex_);
  std::uint32_t next_id_ PASSING_GUARDED_BY(mutex_) = 1;
  std::string ending_ PASSING_GUARDED_BY(mutex_);  // why no more members are admitted
};

}  // namespace passing::controller
