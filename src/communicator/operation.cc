#include "communicator/operation.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/shortage.h"

namespace passing {

Expected<void> Operation::wait() const {
  // In a fork nobody is left to end it.
  if (state_->mailbox && state_->mailbox->foreign() && !test()) return state_->mailbox->fork_error();
  if (state_->mailbox && !test()) state_->mailbox->help(*state_);
  if (!test()) {
    ++state_->sleepers;
    state_->ended.wait(false);
    --state_->sleepers;
  }
  return state_->outcome;
}

bool Operation::test() const { return state_->ended.load(std::memory_order_acquire); }

void Operation::cancel() const {
  if (!test() && state_->mailbox) state_->mailbox->cancel(state_);
}

void Operation::on_end(std::function<void()> what) const {
  using Listening = State::Listening;
  assert(!state_->listener);
  state_->listener = std::move(what);
  if (state_->listening.exchange(Listening::yes) == Listening::ended)
    std::exchange(state_->listener, nullptr)();
}

std::uint32_t Operation::source() const { return state_->peer; }

std::string Operation::State::describe() const {
  switch (what) {
    case What::collective: return fmt::format("operation {} ({})", call.number, call.signature.describe());
    case What::send: return fmt::format("send of {} bytes to rank {}, tag {}", bytes, peer, tag);
    case What::recv:
      if (peer == kAnySource) return fmt::format("recv of {} bytes from any rank, tag {}", bytes, tag);
      return fmt::format("recv of {} bytes from rank {}, tag {}", bytes, peer, tag);
  }
  return "?";
}

namespace {

// How many forks lie between this process and the one that loaded the library. To ask the kernel who we are
// costs a tenth of a small operation.
std::atomic<unsigned> forks{0};

unsigned generation() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace

Mailbox::Mailbox(int wake) : wake_(wake), process_(getpid()), generation_(generation()) {}

Expected<std::shared_ptr<Mailbox>> Mailbox::create() {
  const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake < 0) {
    return system_failure(ErrorCode::no_capacity, "cannot open a descriptor", errno);
  }
  return std::shared_ptr<Mailbox>(new Mailbox(wake));
}

Mailbox::~Mailbox() { ::close(wake_); }

bool Mailbox::foreign() const { return forks.load(std::memory_order_relaxed) != generation_; }

Expected<void> Mailbox::fork_error() const {
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("the communicator belongs to process {}, of which this one is a fork: create one here",
                  process_));
}

void Mailbox::submit(const StatePtr& state) {
  if (foreign()) {
    // The thread that works stayed in the parent, and with it the lock perhaps.
    state->end(fork_error());
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (closed_) {
      state->end(tl::unexpected(*closed_));
      return;
    }
    post_.submitted.push_back(state);
    if (state->what == Operation::State::What::collective) state->call.number = next_number_++;
  }
  if (!attended_) return wake();
  if (!turns_.try_lock()) return wake();
  const MutexLock lock(turns_, std::adopt_lock);
  if (worker_ == nullptr) return wake();
  news_ = true;
  worker_->begin_now(*state);
}

void Mailbox::help(const Operation::State& state) {
  if (!turns_.try_lock()) return;
  const MutexLock lock(turns_, std::adopt_lock);
  if (worker_ != nullptr) worker_->work_until(state);
}

void Mailbox::cancel(const StatePtr& state) {
  if (foreign()) return;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    post_.cancelled.push_back(state);
  }
  wake();
}

void Mailbox::close(const Error& why) {
  const MutexLock lock(mutex_);
  if (!closed_) closed_ = why;
}

std::optional<Error> Mailbox::closed() const {
  if (foreign()) return fork_error().error();
  const MutexLock lock(mutex_);
  return closed_;
}

Mailbox::Post Mailbox::take(bool readable) {
  if (!news_.exchange(false) && !readable) return {};
  if (woken_.exchange(false) || readable) {
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake_, &count, sizeof count));
  }
  const MutexLock lock(mutex_);
  return std::exchange(post_, {});
}

std::uint64_t Mailbox::collectives() const {
  const MutexLock lock(mutex_);
  return next_number_;
}

void Mailbox::wake() const {
  news_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_, &one, sizeof one));
  woken_ = true;
}

}  // namespace passing
