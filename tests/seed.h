// Where random tests begin.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>

namespace passing::test {

/// PASSING_TEST_SEED, or another one every time. Printed, so that a failure can be repeated.
inline unsigned random_seed() {
  const char* given = std::getenv("PASSING_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 0))
                                         : static_cast<unsigned>(std::random_device{}());
  std::printf("PASSING_TEST_SEED=%u\n", seed);
  std::fflush(stdout);
  return seed;
}

}  // namespace passing::test
