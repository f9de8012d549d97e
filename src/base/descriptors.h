// Descriptors of the process: how many there may be.
#pragma once

#include <sys/resource.h>

#include <mutex>

namespace passing {

/// Raises the soft limit of descriptors to the hard one, once in a process: whoever lowers it later means it.
/// A group of 1,000 ranks needs about as many connections, and the usual soft limit is 1,024.
inline void raise_descriptor_limit() {
  static std::once_flag once;
  std::call_once(once, [] {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  });
}

}  // namespace passing
