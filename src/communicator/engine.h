// The thread behind a communicator: it runs collectives, moves messages, watches time and peers.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "communicator/call_ledger.h"
#include "communicator/messages.h"
#include "communicator/operation.h"
#include "communicator/shared_heap.h"
#include "judge/judge.h"
#include "net/mesh.h"
#include "passing/config.h"
#include "strategy/strategy.h"

namespace passing::inhost {
class Door;
struct Place;
}  // namespace passing::inhost

namespace passing {

/// Created and destroyed by any thread; everything else happens on its own, or on one that waits for an
/// operation (engine_drive.cc). Others talk to its mailbox.
///
/// Every collective is announced to the right neighbour, so that a rank that calls something else is found
/// out by its left one, whatever pattern of messages the two would have used. What goes wrong is told to the
/// judge. His decision ends the engine; it ends operations only after the mesh is gone, so that no buffer of
/// theirs is touched any more.
class Engine : private Worker {
 public:
  static Expected<std::unique_ptr<Engine>> create(Config config);
  /// Leaves the group. What has not ended fails, here and everywhere.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Config& config() const { return config_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  int process() const { return process_; }
  /// Of the host, or its name.
  const std::string& host_name() const { return host_name_; }

  /// Of the strategy auto.
  const std::optional<strategy::Plan>& plan() const { return plan_; }
  std::uint32_t hosts() const { return plan_ ? static_cast<std::uint32_t>(plan_->hosts) : 0; }

  /// Strangers at this rank's two doors, by what ended them: docs/mesh.md. Of any thread.
  struct Strangers {
    net::Refused data;
    net::Refused control;
  };
  Strangers strangers() const;

  /// Of any thread: docs/communicator.md.
  Expected<void*> allocate(std::size_t bytes) { return heap_.allocate(bytes); }
  Expected<void> free(void* data) { return heap_.free(data); }

 private:
  // Collectives that run at the same time: the next one fills what the last one leaves of the links.
  static constexpr std::size_t kAtOnce = 8;
  // To begin is an operation, too, or two: the judge counts them.
  static constexpr std::uint64_t kFoundingSteps = 2;
  // The mailbox, the mesh, the nudge and control are the first sources of a wait.
  static constexpr std::size_t kOwnSources = 4;
  // A collective that has begun.
  struct Running {
    StatePtr state;
    std::unique_ptr<strategy::Context> context;
    strategy::Task task;
  };
  // A send or recv.
  struct Point {
    StatePtr state;
    net::TransferPtr transfer;
    std::optional<Error> given_up;  // why it has been cancelled
    Time given_up_at = 0;
  };
  explicit Engine(Config config) : config_(std::move(config)) {}

  // engine_meet.cc: the beginning
  Expected<void> meet();
  Expected<void> share_memory(const inhost::Door& door, const strategy::Hosts& hosts,
                              const std::vector<inhost::Place>& places, std::uint64_t group);
  Expected<void> agree(std::uint64_t step, const char* purpose, const Expected<void>& own);
  void pass_readiness(std::uint64_t step, std::uint32_t& round);

  // engine.cc: the loop
  void run();
  void turn(std::span<const pollfd> sources);
  void take_post(bool readable);
  void begin_collectives();
  void begin(const StatePtr& state);
  void resume_ready();
  void begin_point(const StatePtr& state);
  void check_points();
  void expect_from(std::uint32_t rank);
  bool gone(std::uint32_t rank) const;
  std::string name_of(std::uint32_t rank) const;
  /// As errors name them; any rank is none.
  static std::uint16_t id(std::uint32_t rank) { return static_cast<std::uint16_t>(rank); }
  static std::vector<std::uint16_t> members(std::uint32_t rank);
  void tell_turn();
  Time next_wake() const;
  void announce();

  // engine_drive.cc: who does the work
  bool work(std::vector<pollfd>& sources);
  void stand_back();
  bool has_work() const;
  Duration prepare(std::vector<pollfd>& sources);
  void work_until(const Operation::State& state) override;
  void begin_now(const Operation::State& state) override;
  bool work_in_host();
  void begin_in_host();
  void look(bool around);
  void nudge() const;
  void hand_back(bool nudged);
  // Memory that there is not fails the group, not the process. A template, since a function object may need
  // memory itself.
  template <class Body>
  void guarded(const Body& body) {
    try {
      body();
    } catch (const std::exception& problem) {
      on_exception(problem.what());
    }
  }
  void on_exception(const char* what);

  // engine_faults.cc: what goes wrong
  void make_judge();
  std::string describe(std::uint64_t number) const;
  std::vector<std::uint16_t> waiting_for() const;
  void hear_control();
  void hear();
  void note_lost();
  void on_control(std::uint32_t from, const Control& control);
  void compare_calls();
  void on_left(std::uint32_t rank);
  void on_problem(const StatePtr& state, Error error);
  void give_up_on_left(Point& point);
  void on_broken_transfer(const StatePtr& state, const net::Transfer& transfer);
  void on_cancelled(const StatePtr& state);
  void check_time();
  void step_judge(Time now);
  void tell(std::uint32_t neighbour, const Control& control);
  void fail_group(Error error);
  void heed_judge();
  void await_decision();
  void end_all(const Error& error);
  void end_without_memory();
  void end_operations(const Error& error);
  void leave();
  void settle(Duration limit, const std::function<bool()>& done);

  Config config_;
  std::vector<std::string> names_;  // of the ranks, then of servers
  std::shared_ptr<Mailbox> mailbox_;
  int process_ = 0;
  std::string host_name_;
  std::optional<strategy::Plan> plan_;
  // At the beginning: by step, the rounds of which this rank has heard.
  std::array<std::uint64_t, kFoundingSteps + 1> ready_{};

  strategy::Ground ground_;
  std::unique_ptr<net::Carrier> carrier_;  // for data; none in a group of one
  std::unique_ptr<net::Mesh>
      control_;  // for announcements, and for judges; only with neighbours (docs/faults.md)
  std::shared_ptr<inhost::Host> host_;  // none without neighbours; what it allocates lives as long as this
  SharedHeap heap_;
  std::unique_ptr<strategy::Strategy> strategy_;
  std::deque<StatePtr> queue_;  // collectives that have not begun
  std::deque<std::unique_ptr<Running>> running_;
  std::deque<Point> points_;
  std::vector<StatePtr> untaken_;  // what could not be begun for want of memory, and ends with the rest

  CallLedger ledger_;
  std::unique_ptr<judge::Judge> judge_;
  std::optional<std::uint64_t> turn_;  // the oldest operation, as the judge knows it,
  Time expires_ = INT64_MAX;           // and its deadline, until that has come
  std::vector<bool> left_;             // nothing more comes from it, by rank
  std::optional<Error> failure_;
  unsigned turns_ = 0;

  std::atomic<bool> stop_ = false;
  std::atomic<bool> polling_ = false;  // the thread waits for everything,
  int nudge_ = -1;                     // and this wakes it: an eventfd that nobody else reads
  std::atomic<bool> helping_ = false;  // another thread works,
  std::atomic<Time> helped_at_ = 0;    // or did, and left nothing over
  std::atomic<std::uint64_t> helps_ = 0;
  std::atomic<bool> resting_ = false;  // the thread stands back for longer
  std::uint64_t seen_helps_ = 0;       // by the thread
  Duration standing_back_ = kMicrosecond;
  std::thread thread_;
};

}  // namespace passing
