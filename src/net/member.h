// A member of a job on real sockets: joins by the controller, drives its endpoint, stays alive, leaves.
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "endpoint/endpoint.h"
#include "net/controller_client.h"
#include "net/udp.h"
#include "net/waiting.h"

namespace passing::net {

/// Owned by one thread, which calls everything. One more thread tells the controller that it lives.
class Member {
 public:
  struct Options {
    std::string controller;  ///< HOST:PORT
    std::string job;
    std::string token;
    std::uint32_t size = 1;
    std::uint32_t rank = 0;
    std::uint32_t lanes = 0;  ///< 0: as many as the switch has threads, at most 4
    std::uint32_t slots = 0;  ///< per lane; 0: 256 over all lanes, fewer if packets are large
    bool rejoin = false;
    std::vector<std::string> names;  ///< of the ranks, for messages; empty: by their addresses
    bool segmentation = true;
    Duration join_timeout = 60 * kSecond;  ///< for the controller to answer and everyone to join
    Duration heartbeat = 1 * kSecond;
    Duration silence = 10 * kSecond;  ///< a controller that does not answer for so long is gone
    Duration grace = 5 * kSecond;     ///< for the switch to say who is missing at a deadline
    bool quiet = false;               ///< says nothing on standard error while it waits
  };

  /// Returns when all members have joined.
  static Expected<std::unique_ptr<Member>> join(const Options& options);
  /// Tells the controller, unless that has been done; waits 0.3 s for it at the most.
  ~Member();

  /// The deadline of all that is pending is now.
  void expire() { endpoint_->expire(monotonic_now()); }
  /// Queues an operation; see endpoint::Endpoint::submit. The deadline is a time of monotonic_now.
  Expected<std::uint64_t> submit(const endpoint::Operation& operation) {
    return endpoint_->submit(operation);
  }
  /// Waits for the next operation to end.
  endpoint::Completion wait();

  // The same for callers with a loop of their own: wait_on, poll, progress, next_completion.
  /// Adds descriptors to wait for.
  void wait_on(std::vector<pollfd>& sources) const;
  /// Takes what has come, and sends what there is to send. `sources` are those of wait_on after poll; none:
  /// looks everywhere.
  void progress(std::span<const pollfd> sources);
  std::optional<endpoint::Completion> next_completion() { return endpoint_->next_completion(); }
  std::optional<Time> next_timer() const { return endpoint_->next_timer(); }
  /// Fails what has not ended: no buffer is used any more.
  void end(const Error& reason) { endpoint_->end_epoch(reason); }
  /// Leaves with everyone else if they come in time, and tells the controller in any case.
  void part(Duration limit);

  /// Leaves with everyone else, then tells the controller.
  Expected<void> leave(Duration timeout);

  const endpoint::Endpoint& endpoint() const { return *endpoint_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  std::uint32_t lanes() const { return options_.lanes; }
  bool segmentation() const { return sockets_.front().segmentation(); }

 private:
  Member(Options options)
      : options_(std::move(options)),
        client_(options_.controller, {.deadline = monotonic_now() + options_.join_timeout + kSecond}) {}

  Expected<void> find_switch(Time deadline, Waiting& waiting);
  void choose_lanes();
  Expected<void> open_sockets();
  Expected<void> join_job(Time deadline, Waiting& waiting);
  Expected<void> await_members(Time deadline, Waiting& waiting, JobState& state);
  Expected<void> begin(const JobState& state);
  Expected<void> tell_controller(Duration limit);
  void send_all();
  void receive(std::span<const pollfd> sources);
  void receive_until(Time limit);
  void heartbeat();
  bool rest();
  std::optional<Error> end_of(const JobState& state) const;
  std::optional<Error> end_of(const ControllerClient& client, const Error& refusal, Duration silent) const;
  bool go_on(std::optional<Error> ended);
  void stop_heart();

  Options options_;
  ControllerClient client_;  // until all have joined
  SwitchDescription switch_;
  JoinReply membership_;
  std::vector<std::string> addresses_;
  std::vector<UdpSocket> sockets_;  // one per lane
  std::unique_ptr<endpoint::Endpoint> endpoint_;
  std::vector<std::string> warnings_;
  Train train_;

  // The heartbeat thread's word that the epoch is over; wake_ interrupts the wait for packets.
  int wake_ = -1;
  Mutex mutex_;
  std::condition_variable_any stopping_;
  bool stop_ PASSING_GUARDED_BY(mutex_) = false;
  std::optional<Error> ended_ PASSING_GUARDED_BY(mutex_);
  std::thread heart_;
  int interrupt_ = -1;                // readable: a heartbeat under way ends at once
  std::atomic<bool> answers_ = true;  // the controller, as far as the heart knows
  std::atomic<Time> asked_ = 0;       // when the heartbeat under way began
  bool told_ = false;                 // the controller, that this member leaves
};

}  // namespace passing::net
