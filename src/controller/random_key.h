// Numbers that nobody can foresee.
#pragma once

#include <sys/random.h>

#include <cstdint>

#include "base/error.h"

namespace passing::controller {

inline std::uint64_t random_key() {
  std::uint64_t key = 0;
  PASSING_ASSERT(getrandom(&key, sizeof key, 0) == sizeof key);
  return key;
}

}  // namespace passing::controller
