// A call of c10d under way.
#pragma once

#include <passing/communicator.h>

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "base.h"

namespace passing::torch_backend {

/// As c10d has them: one list, or one list per tensor.
using Tensors = std::vector<at::Tensor>;
using Outputs = std::vector<Tensors>;

/// What a call has become.
struct Call {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;  ///< for the profiler: "passing:all_reduce"
  Tensors inputs;               ///< whose shapes the profiler shows
  Outputs outputs;              ///< what its future gives
  Tensors kept;                 ///< buffers that must stay until it has ended
  std::vector<Operation> operations;
  std::function<void()> after;  ///< copies results to where they belong
};

class Completer;

/// Ends when its operations have, by whoever notices first: a thread that waits for it, or the completer.
class PassingWork final : public c10d::Work {
 public:
  PassingWork(int rank, Call call);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  int sourceRank() const override;

  const std::vector<Operation>& operations() const { return call_.operations; }
  /// Waits for the operations, finishes, and tells the future.
  void settle();

 private:
  void finish_up();

  Call call_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::once_flag finished_;
  std::atomic<bool> told_ = false;
};

/// Threads that finish works when their operations have ended, so that futures and their callbacks need
/// nobody to wait. Callbacks may be Python, and may wait for other futures: they must not run on the
/// communicator's thread, and while one runs another thread looks after the rest.
class Completer {
 public:
  Completer();
  /// Finishes what has ended. Also from within a callback.
  ~Completer();
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  /// To be called once all operations are there.
  void watch(const c10::intrusive_ptr<PassingWork>& work);

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable news;
    std::list<c10::intrusive_ptr<PassingWork>> works;
    std::vector<std::thread> threads;
    std::size_t idle = 0;
    bool stopping = false;
  };
  static Expected<void> start(const std::shared_ptr<Queue>& queue);
  static void run(const std::shared_ptr<Queue>& queue);

  // Operations may end after the completer has gone.
  std::shared_ptr<Queue> queue_;
};

/// What torch shows: with the words that its users, and tests, look for.
std::runtime_error exception_of(const Error& error);

}  // namespace passing::torch_backend
