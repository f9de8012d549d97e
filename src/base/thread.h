// Threads of our own in someone else's process.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/shortage.h"

namespace passing {

/// Signals are left to the application's threads.
template <class Body>
Expected<std::thread> start_thread(Body body) {
  // The caller has its own signals back, also where there is no memory for a thread.
  struct Masked {
    sigset_t before;
    Masked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Masked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } const masked;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& problem) {
    return fail(ErrorCode::no_capacity,
                std::string("cannot start a thread: ") + problem.what() +
                    "; raise the limits of processes and memory (ulimit -u, ulimit -v)");
  }
}

}  // namespace passing
