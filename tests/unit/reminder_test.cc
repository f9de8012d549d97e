// docs/communicator.md: what is waited for is said after 3 s, then ever more rarely.
#include "base/reminder.h"

#include <gtest/gtest.h>

#include <vector>

namespace passing {
namespace {

std::vector<Duration> said_until(Duration end, Duration step) {
  constexpr Time kBegun = 17 * kSecond;
  Reminder reminder(kBegun);
  std::vector<Duration> said;
  for (Duration passed = 0; passed <= end; passed += step) {
    if (reminder.due(kBegun + passed)) said.push_back(reminder.waited(kBegun + passed) / kSecond);
  }
  return said;
}

TEST(Reminder, IsDueAfterTwiceTheTimeAndAtLeastOnceAMinute) {
  EXPECT_EQ(said_until(300 * kSecond, 100 * kMillisecond),
            (std::vector<Duration>{3, 6, 12, 24, 48, 96, 156, 216, 276}));
}

TEST(Reminder, IsNotDueEarlier) { EXPECT_EQ(said_until(2'999 * kMillisecond, kMillisecond).size(), 0U); }

// Whoever looks rarely is not told several times at once.
TEST(Reminder, IsDueOnceForALongPause) {
  EXPECT_EQ(said_until(200 * kSecond, 50 * kSecond), (std::vector<Duration>{50, 100, 200}));
}

}  // namespace
}  // namespace passing
