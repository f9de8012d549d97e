// docs/protocol.md section 6: round trips, window, the list of chunks in flight.
#include <gtest/gtest.h>

#include "endpoint/lookahead.h"
#include "endpoint/retransmit.h"
#include "endpoint/round_trip.h"
#include "endpoint/window.h"

namespace passing::endpoint {
namespace {

TEST(RoundTrip, Section62TimeoutFollowsTheMeasuredPath) {
  const Config config;
  RoundTrip trip(config);
  EXPECT_EQ(trip.timeout(0), config.initial_timeout);
  for (int i = 0; i < 100; ++i) trip.sample(10 * kMillisecond, true);
  EXPECT_NEAR(static_cast<double>(trip.timeout(0)), 10.0 * kMillisecond, 0.1 * kMillisecond);
  EXPECT_EQ(trip.timeout(2), 4 * trip.timeout(0));
  EXPECT_EQ(trip.timeout(60), config.maximum_timeout);
}

TEST(RoundTrip, Section62WaitingForOthersIsNotMeasured) {
  RoundTrip trip{Config{}};
  for (int i = 0; i < 20; ++i) trip.sample(kMillisecond, true);
  const Duration before = trip.timeout(0);
  trip.sample(900 * kMillisecond, false);
  EXPECT_EQ(trip.timeout(0), before);
  trip.sample(900 * kMillisecond, true);
  EXPECT_GT(trip.timeout(0), 100 * kMillisecond);
}

// Else a member that waited for a late one lost seconds with every packet that was lost.
TEST(RoundTrip, Section62TheFirstWaitForOthersDoesNotSlowDown) {
  const Config config;
  RoundTrip trip(config);
  trip.sample(3 * kSecond, false);
  EXPECT_LE(trip.timeout(0), config.initial_timeout);
  EXPECT_GT(trip.timeout(0), config.initial_timeout / 2);
  EXPECT_EQ(trip.smallest(), 3 * kSecond);
  trip.sample(kSecond / 2, true);
  EXPECT_GT(trip.timeout(0), 100 * kMillisecond) << "what measures the path counts";
}

TEST(RoundTrip, Section62TimeoutHasAFloor) {
  RoundTrip trip{Config{}};
  for (int i = 0; i < 50; ++i) trip.sample(1, true);
  EXPECT_EQ(trip.timeout(0), Config{}.minimum_timeout);
  EXPECT_EQ(trip.reordering_allowance(), 50 * kMicrosecond);
}

TEST(Window, Section61StaysBetweenItsFloorAndTheSlots) {
  for (const std::uint32_t slots : {1U, 2U, 8U, 64U, 256U}) {
    Window window(slots);
    for (int i = 0; i < 2000; ++i) window.on_result();
    EXPECT_EQ(window.size(), slots);
    for (Time now = 0; now < 100; ++now) window.on_loss(now * kSecond, kMillisecond, false);
    EXPECT_EQ(window.size(), std::min(slots, 64U));
    for (Time now = 100; now < 200; ++now) window.on_loss(now * kSecond, kMillisecond, true);
    EXPECT_EQ(window.size(), std::min(slots, 8U));
    window.on_loss(300 * kSecond, kMillisecond, false);
    EXPECT_EQ(window.size(), std::min(slots, 8U)) << "a cut never enlarges it";
    for (int i = 0; i < 100'000; ++i) window.on_result();
    EXPECT_EQ(window.size(), slots);
  }
}

TEST(Window, Section61LossCountsOncePerRoundTrip) {
  for (const bool by_timer : {false, true}) {
    Window window(256);
    for (int i = 0; i < 100; ++i) window.on_result();
    const std::uint32_t before = window.size();
    for (int i = 0; i < 50; ++i) window.on_loss(1000, kMillisecond, by_timer);
    EXPECT_EQ(window.size(), before - before / (by_timer ? 2 : 8));
  }
}

TEST(RetransmitList, Section62KeepsTheOrderOfTransmission) {
  RetransmitList list(4);
  list.first_sent(2, 10);
  list.first_sent(0, 11);
  list.first_sent(3, 12);
  EXPECT_EQ(list.front(), 2U);
  list.sent_again(2, 13);
  EXPECT_EQ(list.front(), 0U);
  EXPECT_EQ(list.transmissions(2), 2U);
  EXPECT_GT(list.order(2), list.order(3));
  list.remove(3);
  list.remove(3);
  list.remove(0);
  EXPECT_EQ(list.front(), 2U);
  list.remove(2);
  EXPECT_TRUE(list.empty());
  list.first_sent(1, 20);
  EXPECT_EQ(list.front(), 1U);
}

TEST(Lookahead, Section72TheFirstBlocksAreUnknown) {
  Lookahead ahead(3);
  for (std::uint64_t block = 0; block < 3; ++block) {
    EXPECT_TRUE(ahead.resolved(block));
    EXPECT_EQ(ahead.word(block), PASSING_WORD_UNKNOWN);
  }
}

TEST(Lookahead, Section73ABurstReplacesWhatIsCarriedEvenIfThatArrivesLater) {
  Lookahead ahead(2);
  ahead.carry(2);
  ahead.burst(1, 3);
  ahead.burst_result(2, 100);
  ahead.carried(2, 200);
  EXPECT_EQ(ahead.word(2), 100);
}

TEST(Lookahead, WordsOfBlocksThatArePassedAreIgnored) {
  Lookahead ahead(1);  // a ring of two: block 0 and block 2 share a place
  ahead.carry(1);
  ahead.pass(0);
  ahead.pass(1);
  ahead.carry(3);
  ahead.carried(1, 77);
  EXPECT_FALSE(ahead.resolved(3));
}

}  // namespace
}  // namespace passing::endpoint
