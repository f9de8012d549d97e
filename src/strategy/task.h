// A collective under way, written as a coroutine: it reads like the algorithm and waits without a thread.
#pragma once

#include <coroutine>
#include <utility>

namespace passing::strategy {

/// Begins when started or awaited. Destroying it drops the work that is left. Errors do not pass through it:
/// whoever notices one tells the communicator, which drops the task (Context::problem).
class Task {
 public:
  struct promise_type {
    std::coroutine_handle<> continuation = std::noop_coroutine();

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Resume {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
          return self.promise().continuation;
        }
        void await_resume() noexcept {}
      };
      return Resume{};
    }
    void return_void() {}
    // Memory, above all: the communicator's thread gets it, and fails the group.
    // cppcheck-suppress rethrowNoCurrentException
    void unhandled_exception() { throw; }
  };

  Task() = default;
  Task(Task&& other) noexcept
      : handle_(std::exchange(other.handle_, {})), started_(std::exchange(other.started_, false)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(started_, other.started_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  void start() {
    started_ = true;
    handle_.resume();
  }
  bool done() const { return handle_.done(); }

  // co_await task: runs it to its end. One that has been started goes on beside the waiter until then.
  bool await_ready() const { return started_ && handle_.done(); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) {
    handle_.promise().continuation = waiter;
    if (std::exchange(started_, true)) return std::noop_coroutine();
    return handle_;
  }
  void await_resume() const {}

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
  bool started_ = false;
};

}  // namespace passing::strategy
