// Rehearsals of the protocol and of the judges from fresh seeds: `make rehearse SECONDS=600`. What fails is
// printed with the command that replays it, and belongs into the list of seeds that once failed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "judge/world.h"
#include "rehearse/world.h"

namespace {

using Clock = std::chrono::steady_clock;
using passing::judge::World;

// What is wrong, or nothing.
std::string rehearse_protocol(std::uint64_t seed) {
  const auto scenario = passing::rehearse::Scenario::from_seed(seed);
  const std::string problem = passing::rehearse::World(scenario).run().problem;
  return problem.empty() ? "" : problem + "\n  " + scenario.describe();
}

std::string rehearse_judges(std::uint64_t seed) {
  const auto scenario = passing::judge::Scenario::from_seed(seed);
  const std::string problem = World(scenario).run().problem;
  return problem.empty() ? "" : problem + "\n  " + scenario.describe();
}

bool is_right(const char* what, std::uint64_t seed) {
  const bool protocol = std::strcmp(what, "protocol") == 0;
  const std::string problem = protocol ? rehearse_protocol(seed) : rehearse_judges(seed);
  if (problem.empty()) return true;
  std::printf("%s, seed %llu: %s\n  replay: build/release/rehearse_fresh %s %llu\n", what,
              static_cast<unsigned long long>(seed), problem.c_str(), what,
              static_cast<unsigned long long>(seed));
  if (protocol)
    std::printf("  packet by packet: build/release/passing rehearse --seed %llu --trace\n",
                static_cast<unsigned long long>(seed));
  return false;
}

// As many of each as go into the time. 0: without end.
int rehearse_for(double seconds) {
  std::random_device random;
  // Below those that the suites use there is nothing fresh.
  std::uint64_t seed = 1'000'000 + (std::uint64_t{random()} << 16);
  const auto begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  double told = 0;
  unsigned long long runs = 0;
  unsigned long long wrong = 0;
  std::printf("seeds from %llu on\n", static_cast<unsigned long long>(seed));
  for (; seconds <= 0 || spent() < seconds; ++seed, ++runs) {
    for (const char* what : {"protocol", "judges"}) wrong += is_right(what, seed) ? 0 : 1;
    if (spent() < told + 10) continue;
    told = spent();
    std::printf("%.0f s: %llu seeds of each, %llu wrong\n", told, runs + 1, wrong);
    std::fflush(stdout);
  }
  std::printf("%llu seeds of each, %llu wrong\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  char* end = nullptr;
  if (argc == 2) {
    const double seconds = std::strtod(argv[1], &end);
    if (*argv[1] != 0 && *end == 0) return rehearse_for(seconds);
  }
  if (argc == 3 && (std::strcmp(argv[1], "protocol") == 0 || std::strcmp(argv[1], "judges") == 0)) {
    const std::uint64_t seed = std::strtoull(argv[2], &end, 10);
    if (*argv[2] != 0 && *end == 0) {
      const bool right = is_right(argv[1], seed);
      if (right) std::printf("as it must be\n");
      return right ? 0 : 1;
    }
  }
  std::fprintf(stderr,
               "usage: rehearse_fresh SECONDS            fresh seeds for so long; 0: without end\n"
               "       rehearse_fresh protocol|judges SEED   this one again\n");
  return 2;
}
