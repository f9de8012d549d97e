// Judges from seeds: docs/faults.md section 8. What a seed does is in world.cc.
#include <gtest/gtest.h>

#include <map>

#include "judge/world.h"

namespace passing::judge {
namespace {

constexpr std::uint64_t kShards = 20;
constexpr std::uint64_t kSeedsPerShard = 1000;
static_assert(kShards * kSeedsPerShard >= 20'000);

Outcome expect_right(std::uint64_t seed) {
  const Scenario scenario = Scenario::from_seed(seed);
  const Outcome outcome = World(scenario).run();
  EXPECT_EQ(outcome.problem, "") << scenario.describe();
  return outcome;
}

// Seeds that once failed, and are not among the others.
TEST(Judge, DoesNotFailAgain) {
  // Two roll calls of the same number: the second was taken for answered by one that had died.
  for (const std::uint64_t seed : {59'387U, 59'592U, 71'742U}) expect_right(seed);
}

class Judges : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Shard, Judges, testing::Range(std::uint64_t{0}, kShards));

TEST_P(Judges, AgreeAndNameNobodyInnocent) {
  const std::uint64_t first = GetParam() * kSeedsPerShard;
  std::map<std::string, unsigned> probes;
  for (std::uint64_t seed = first; seed < first + kSeedsPerShard && !HasFailure(); ++seed) {
    for (const std::string& each : expect_right(seed).probes) ++probes[each];
  }
  // A generator that stopped making faults would leave every test green.
  for (const char* each :
       {"a segment was lost", "several proposals", "left before it", "not answering", "not calling it",
        "is lost", "are lost", "not confirmed", "the switch is unreachable", "the switch waits for",
        "a message has another length", "they called something else", "in the middle of it",
        "patience has ended", "not held after the deadline", "the dead instead of the switch",
        "the missing instead of the switch"}) {
    EXPECT_GT(probes[each], 0U) << each;
  }
}

}  // namespace
}  // namespace passing::judge
