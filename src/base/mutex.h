// Locks whose rules Clang checks (-Wthread-safety, in make lint): what a lock guards, and who must hold it.
#pragma once

#include <mutex>

#if defined(__clang__)
#define PASSING_THREAD_RULE(x) __attribute__((x))
#else
#define PASSING_THREAD_RULE(x)
#endif

/// Of a class: it is something that a thread can hold, called `name` in messages.
#define PASSING_CAPABILITY(name) PASSING_THREAD_RULE(capability(name))
/// Of a class: it holds something from its constructor to its destructor.
#define PASSING_SCOPED_CAPABILITY PASSING_THREAD_RULE(scoped_lockable)
/// Of a field: only who holds `lock` may use it, or what it points to.
#define PASSING_GUARDED_BY(lock) PASSING_THREAD_RULE(guarded_by(lock))
#define PASSING_PT_GUARDED_BY(lock) PASSING_THREAD_RULE(pt_guarded_by(lock))
/// Of a function: only who holds it, or who does not hold it, may call.
#define PASSING_REQUIRES(...) PASSING_THREAD_RULE(requires_capability(__VA_ARGS__))
#define PASSING_EXCLUDES(...) PASSING_THREAD_RULE(locks_excluded(__VA_ARGS__))
/// Of a function: takes it, lets go of it, takes it if it gives back `success`.
#define PASSING_ACQUIRE(...) PASSING_THREAD_RULE(acquire_capability(__VA_ARGS__))
#define PASSING_RELEASE(...) PASSING_THREAD_RULE(release_capability(__VA_ARGS__))
#define PASSING_TRY_ACQUIRE(...) PASSING_THREAD_RULE(try_acquire_capability(__VA_ARGS__))
/// Of a function: whoever calls it holds it; for lambdas, into which Clang does not look.
#define PASSING_ASSERT_HELD(...) PASSING_THREAD_RULE(assert_capability(__VA_ARGS__))
/// Of a function: gives back `lock`.
#define PASSING_RETURN_CAPABILITY(lock) PASSING_THREAD_RULE(lock_returned(lock))

namespace passing {

/// std::mutex, of which Clang knows.
class PASSING_CAPABILITY("mutex") Mutex {
 public:
  void lock() PASSING_ACQUIRE() { mutex_.lock(); }
  void unlock() PASSING_RELEASE() { mutex_.unlock(); }
  bool try_lock() PASSING_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void assert_held() const PASSING_ASSERT_HELD(this) {}

 private:
  std::mutex mutex_;
};

/// Holds a mutex as long as it lives.
class PASSING_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PASSING_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  /// For who has got it by try_lock().
  MutexLock(Mutex& mutex, std::adopt_lock_t /*held*/) PASSING_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() PASSING_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace passing
