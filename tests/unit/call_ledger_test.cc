// What a rank and its left neighbour call, compared: docs/faults.md section 4.
#include "communicator/call_ledger.h"

#include <gtest/gtest.h>

#include "rehearse/random.h"

namespace passing {
namespace {

LedgerCall sum_of(std::uint64_t count) {
  return {.signature = {.kind = strategy::Kind::all_reduce, .count = count}, .counts = {}};
}

TEST(CallLedger, FindsTheFirstDifference) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    rehearse::Random random(seed);
    const std::uint64_t calls = random.between(1, 40);
    const std::uint64_t odd = random.below(2 * calls);  // beyond the end: they agree
    CallLedger ledger;
    std::uint64_t mine = 0;
    std::uint64_t theirs = 0;
    std::optional<CallLedger::Difference> found;
    while ((mine < calls || theirs < calls) && !found) {
      if (theirs == calls || (mine < calls && random.chance(0.5))) {
        ledger.call(sum_of(mine / 5));
        ++mine;
      } else {
        ledger.announced_by_left(sum_of(theirs == odd ? 1000 : theirs / 5));
        ++theirs;
      }
      found = ledger.compare();
    }
    ASSERT_EQ(found.has_value(), odd < calls) << seed;
    if (!found) continue;
    EXPECT_EQ(found->number, odd);
    EXPECT_EQ(found->theirs.signature.count, 1000U);
    EXPECT_EQ(found->mine.signature.count, odd / 5);
  }
}

TEST(CallLedger, AnnouncesTheSameCallOnce) {
  CallLedger ledger;
  for (int i = 0; i < 100; ++i) ledger.call(sum_of(7));
  ledger.call(sum_of(8));
  EXPECT_EQ(ledger.unannounced(), 101U);
  const auto calls = ledger.take_unannounced();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].times, 100U);
  EXPECT_EQ(calls[1].times, 1U);
  EXPECT_EQ(ledger.unannounced(), 0U);
  EXPECT_EQ(ledger.called(), 101U);
}

// What cannot be right does no harm.
TEST(CallLedger, AnnouncementsOfNothing) {
  CallLedger ledger;
  LedgerCall none = sum_of(9);
  none.times = 0;
  ledger.announced_by_left(none);
  ledger.call(sum_of(7));
  EXPECT_FALSE(ledger.compare());
}

}  // namespace
}  // namespace passing
