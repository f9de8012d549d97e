// The state that an Operation, its communicator and its thread share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "passing/communicator.h"
#include "strategy/call.h"

namespace passing {

class Mailbox;

struct Operation::State {
  enum class What : std::uint8_t { collective, send, recv };

  What what = What::collective;
  strategy::Call call;     // of a collective; the deadline of all
  std::uint32_t peer = 0;  // of send and recv
  std::uint32_t tag = 0;
  std::size_t bytes = 0;
  Time begun = 0;
  Duration timeout = 0;              // of a collective: from when its turn has come
  std::shared_ptr<Mailbox> mailbox;  // to cancel by; empty if it never began

  /// "operation 7 (all_reduce of 10 float32 (sum))", "send of 8 bytes to rank 2, tag 5".
  std::string describe() const;

  /// Once, by whoever ends it.
  void end(Expected<void> how) {
    outcome = std::move(how);
    ended.store(true);
    // Most who wait do the work themselves: the system is not asked to wake nobody. Both are sequentially
    // consistent, so a sleeper is seen here, or sees that it has ended.
    if (sleepers.load() != 0) ended.notify_all();
    if (listening.exchange(Listening::ended) == Listening::yes) std::exchange(listener, nullptr)();
  }

  /// The same with an error, if nobody has; without memory for it, with a short one.
  void fail_unless_ended(const Error& error) {
    if (ended) return;
    Expected<void> how = tl::unexpected(Error{ErrorCode::no_capacity, "no memory", {}});
    try {
      how = tl::unexpected(error);
    } catch (const std::bad_alloc&) {
      // The short one it is.
    }
    end(std::move(how));
  }

  std::atomic<bool> ended = false;
  std::atomic<std::uint32_t> sleepers = 0;
  Expected<void> outcome;  // once ended

  enum class Listening : std::uint8_t { no, yes, ended };
  std::atomic<Listening> listening = Listening::no;
  std::function<void()> listener;  // who exchanges last calls it
};

using StatePtr = std::shared_ptr<Operation::State>;

/// Who does the work. Called by who holds Mailbox::turns(), which Mailbox sees to.
class Worker {
 public:
  virtual ~Worker() = default;
  /// Works until the operation has ended, or cannot go on here.
  virtual void work_until(const Operation::State& state) = 0;
  /// Begins an operation that has just been submitted, if that is quickly done.
  virtual void begin_now(const Operation::State& state) = 0;
};

/// Between the threads that call and the one that works. Outlives the communicator as long as operations do.
class Mailbox {
 public:
  static Expected<std::shared_ptr<Mailbox>> create();
  ~Mailbox();

  /// This process is a fork of the one that the communicator lives in.
  bool foreign() const;
  Expected<void> fork_error() const;

  /// Takes an operation, and gives a collective its number; ended at once if there is a reason to.
  void submit(const StatePtr& state) PASSING_EXCLUDES(turns_, mutex_);
  void cancel(const StatePtr& state) PASSING_EXCLUDES(mutex_);
  /// Ends everything: what is submitted from now on ends with `why`. The first reason counts.
  void close(const Error& why) PASSING_EXCLUDES(mutex_);
  std::optional<Error> closed() const PASSING_EXCLUDES(mutex_);

  struct Post {
    std::vector<StatePtr> submitted;
    std::vector<StatePtr> cancelled;
  };
  /// `readable`: its descriptor is known to be so.
  Post take(bool readable = true) PASSING_EXCLUDES(mutex_);

  /// Whoever waits may work himself, if nobody does at the moment.
  void help(const Operation::State& state) PASSING_EXCLUDES(turns_);
  /// Who holds it works: nobody else touches what the communicator works with.
  Mutex& turns() PASSING_RETURN_CAPABILITY(turns_) { return turns_; }
  void set_worker(Worker* worker) PASSING_REQUIRES(turns_) { worker_ = worker; }
  /// Callers that wait do the work lately: the communicator's thread need not be woken for what they submit.
  void set_attended(bool attended) { attended_ = attended; }
  std::uint64_t collectives() const PASSING_EXCLUDES(mutex_);

  /// Readable when there is something to take; wake() makes it so.
  int descriptor() const { return wake_; }
  void wake() const;

 private:
  explicit Mailbox(int wake);

  Mutex turns_;
  Worker* worker_ PASSING_GUARDED_BY(turns_) = nullptr;
  std::atomic<bool> attended_ = false;
  mutable std::atomic<bool> news_ = false;   // saves a look at the post,
  mutable std::atomic<bool> woken_ = false;  // and at the descriptor
  mutable Mutex mutex_;
  Post post_ PASSING_GUARDED_BY(mutex_);
  std::uint64_t next_number_ PASSING_GUARDED_BY(mutex_) = 0;
  std::optional<Error> closed_ PASSING_GUARDED_BY(mutex_);
  int wake_;
  const int process_;
  const unsigned generation_;
};

}  // namespace passing
