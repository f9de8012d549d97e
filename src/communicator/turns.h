// Which thread works: the communicator's own, or one of the user's that waits for an operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "communicator/core.h"
#include "communicator/operation.h"

namespace passing {

/// An eventfd, which nobody reads but the thread it is meant for.
class Nudge {
 public:
  static Expected<Nudge> create();
  Nudge(Nudge&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Nudge& operator=(Nudge&&) = delete;
  ~Nudge();

  int descriptor() const { return descriptor_; }
  void give() const;
  void take() const;

 private:
  Nudge() = default;

  int descriptor_ = -1;
};

/// The latter saves two changes of threads per operation, which is most of a small one's time. Whoever holds
/// Mailbox::turns() may use the core, and nobody else: Clang checks it. Locks and atomics of this directory
/// are here, in Mailbox, Operation::State and SharedHeap, for splits (communicator.cc) and for forks
/// (operation.cc).
///
/// The thread stands back as long as someone else has worked lately: it looks again now and then, and is
/// woken at once when something is left over.
class Turns : private Worker {
 public:
  static Expected<std::unique_ptr<Turns>> create(std::shared_ptr<Mailbox> mailbox, std::unique_ptr<Core> core,
                                                 Nudge nudge);
  /// Finishes the core, on its thread.
  ~Turns() override;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Of any thread: waits for its turn.
  Strangers strangers() const PASSING_EXCLUDES(mailbox_->turns());

 private:
  Turns(std::shared_ptr<Mailbox> mailbox, std::unique_ptr<Core> core, Nudge nudge);

  void run();
  bool take_turn(std::vector<pollfd>& sources);
  void stand_back();

  // By whoever holds the turn.
  void turn(std::span<const pollfd> sources) PASSING_REQUIRES(mailbox_->turns());
  Duration prepare(std::vector<pollfd>& sources) PASSING_REQUIRES(mailbox_->turns());
  bool is_over() const PASSING_REQUIRES(mailbox_->turns()) { return stop_ || core_->failed(); }
  template <class Body>
  void guarded(const Body& body) PASSING_REQUIRES(mailbox_->turns());
  void work_until(const Operation::State& state) override PASSING_REQUIRES(mailbox_->turns());
  void work_for(const Operation::State& state) PASSING_REQUIRES(mailbox_->turns());
  void begin_now(const Operation::State& state) override PASSING_REQUIRES(mailbox_->turns());
  void hand_back(bool nudged) PASSING_REQUIRES(mailbox_->turns());

  const std::shared_ptr<Mailbox> mailbox_;
  const std::unique_ptr<Core> core_ PASSING_PT_GUARDED_BY(mailbox_->turns());

  std::atomic<bool> stop_ = false;
  std::atomic<bool> polling_ = false;  // the thread waits for everything,
  const Nudge nudge_;                  // and this wakes it
  std::atomic<bool> helping_ = false;  // another thread works,
  std::atomic<Time> helped_at_ = 0;    // or did, and left nothing over
  std::atomic<std::uint64_t> helps_ = 0;
  std::atomic<bool> resting_ = false;  // the thread stands back for longer

  // Of the thread alone.
  std::uint64_t seen_helps_ = 0;
  Duration standing_back_ = kMicrosecond;
  std::thread thread_;
};

}  // namespace passing
