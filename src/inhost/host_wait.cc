// Counting, sleeping and waking: docs/inhost.md section 4.
#include <linux/futex.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "inhost/host.h"

namespace passing::inhost {
namespace {

constexpr Duration kLongestSpin = 200 * kMicrosecond;
// Longer than it takes to be woken: or else, of two that wait for each other in turns, each would fall asleep
// while the other one gets up, for ever.
constexpr Duration kShortestSpin = 50 * kMicrosecond;
constexpr Duration kAlone = 2 * kMicrosecond;
constexpr int kYields = 8;
constexpr int kGlances = 16;
// A sleeper looks itself whether a neighbour has died: nobody else may be awake to tell it.
constexpr Duration kFirstNap = 2 * kMillisecond;
constexpr Duration kLongestNap = 16 * kMillisecond;

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, Duration time) {
  const timespec limit{time / kSecond, time % kSecond};
  if (::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, &limit, nullptr, 0) ==
      0)
    return;
  // Where a sandbox forbids it, this is slow, but right.
  if (errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) ::usleep(50);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// A waker stores its count, then reads the bell; a sleeper stores its bell, then reads the counts. All four
// are sequentially consistent, so one of the two sees the other.

bool Host::reached(Stage stage, std::uint64_t least) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (header().rank[i].stages[stage].count.load() < least) return false;
  }
  return true;
}

bool Host::any(const Awaited& awaited) const {
  for (const Stage stage : {given, added, summed, taken}) {
    const std::uint64_t least = awaited.least[stage];
    if (least != kNowhere && reached(stage, least)) return true;
  }
  return false;
}

bool Host::closed() const {
#ifndef __SANITIZE_THREAD__  // which knows no fences
  // After whatever has been read before.
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return header().reporter.load() != 0;
}

bool Host::advance(Stage stage) {
  if (closed()) return false;
  header().rank[me_].stages[stage].count.store(++own_[stage]);
  for (std::size_t i = 0; i < size(); ++i) {
    if (i == me_) continue;
    auto& sleep = header().rank[i].sleep;
    if (sleep.bell.load() == awake) continue;
    // Only who completes what someone waits for wakes him.
    const std::uint64_t least = sleep.least[stage].load(std::memory_order_relaxed);
    if (least <= own_[stage] && reached(stage, least)) ring(i);
  }
  return true;
}

void Host::ring(std::size_t index) {
  auto& bell = header().rank[index].sleep.bell;
  if (bell.load() == awake) return;
  const std::uint32_t was = bell.exchange(awake);
  if (was == in_futex) futex_wake(bell);
  if (was == in_poll) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(bells_[index].get(), &one, sizeof one);
  }
}

void Host::lie_down(const Awaited& awaited, Bell how) {
  auto& sleep = header().rank[me_].sleep;
  for (std::size_t s = 0; s < kStages; ++s) sleep.least[s].store(awaited.least[s], std::memory_order_relaxed);
  sleep.bell.store(how);
}

void Host::get_up() { header().rank[me_].sleep.bell.store(awake); }

// Pays while everyone has a core of his own, and someone is about to come. Otherwise the core is given to
// whoever is to come; some turns of that are cheaper than to sleep and be woken.
bool Host::spin(const Awaited& awaited) {
  if (crowded_) {
    for (int i = 0; i < kYields; ++i) {
      sched_yield();
      if (any(awaited)) return true;
    }
    return false;
  }
  if (patience_ == 0) patience_ = kLongestSpin;
  // A small operation is over before a clock has been read twice.
  for (int i = 0; i < kGlances; ++i) {
    if (any(awaited)) return true;
    pause();
  }
  const Time begin = now();
  Time time = begin;
  do {
    for (int i = 0; i < 8; ++i) {
      if (any(awaited)) {
        patience_ = std::min(2 * patience_, kLongestSpin);
        return true;
      }
      pause();
    }
    // Whoever is to come may be on this very core: schedulers take their time to spread processes.
    if (time - begin > kAlone) sched_yield();
    time = now();
  } while (time < begin + patience_);
  patience_ = std::max(patience_ / 2, kShortestSpin);
  return false;
}

void Host::wait(const Awaited& awaited, Time deadline) {
  if (any(awaited) || spin(awaited)) return;
  for (Duration nap = kFirstNap;; nap = std::min(2 * nap, kLongestNap)) {
    const Time before = now();
    lie_down(awaited, in_futex);
    if (!any(awaited) && header().reporter.load() == 0)
      futex_wait(header().rank[me_].sleep.bell, in_futex, std::clamp<Duration>(deadline - before, 1, nap));
    get_up();
    if (any(awaited) || trouble()) return;
    look();
    miss_the_left(awaited);
    if (now() >= deadline) miss_the_late(awaited);
    if (trouble()) return;
  }
}

void Host::nap(const Awaited& awaited, Duration limit) {
  if (any(awaited) || spin(awaited)) return;
  lie_down(awaited, in_futex);
  if (!any(awaited) && header().reporter.load() == 0)
    futex_wait(header().rank[me_].sleep.bell, in_futex, std::clamp<Duration>(limit, 1, kFirstNap));
  get_up();
}

bool Host::sleep(const Awaited& awaited) {
  asleep_for_ = awaited;
  lie_down(awaited, in_poll);
  if (!any(awaited) && header().reporter.load() == 0) return true;
  get_up();
  return false;
}

}  // namespace passing::inhost
