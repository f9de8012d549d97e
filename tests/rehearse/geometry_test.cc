// docs/numerics.md: bits do not depend on packets, lanes, slots, windows, arrival or byte order.
#include <gtest/gtest.h>

#include "rehearse/world.h"

namespace passing::rehearse {
namespace {

Scenario base() {
  Scenario s;
  s.seed = 20250815;
  s.members = 5;
  s.skew = kMillisecond;
  s.network = {.loss = 0.05,
               .duplication = 0.05,
               .straggling = 0.05,
               .jitter = 100 * kMicrosecond,
               .straggle = 5 * kMillisecond};
  for (const auto type : {numeric::DataType::float32, numeric::DataType::float16, numeric::DataType::bfloat16,
                          numeric::DataType::int32}) {
    for (const auto pattern :
         {Pattern::gradients, Pattern::magnitudes, Pattern::sprinkled, Pattern::raw_bits}) {
      s.operations.push_back({.type = type,
                              .reduction = numeric::Reduction::average,
                              .elements = 5 * 2112 + 100,
                              .divisor = 10,
                              .pattern = pattern,
                              .in_place = true});
    }
  }
  return s;
}

// The inputs depend on the seed alone; the network's random numbers are drawn anew each time. World
// compares every element with the exact result, so equal bits follow from success.
void expect_exact(const Scenario& scenario) {
  const Outcome outcome = World(scenario).run();
  EXPECT_EQ(outcome.problem, "") << scenario.describe();
  EXPECT_EQ(outcome.operations, scenario.members * (scenario.operations.size() + 1));
}

TEST(Geometry, PacketSizesGiveTheSameBits) {
  for (const std::uint32_t elements : {32U, 64U, 352U, 704U, 2112U}) {
    Scenario s = base();
    s.elements = elements;
    expect_exact(s);
  }
}

TEST(Geometry, LanesGiveTheSameBits) {
  for (std::uint32_t lanes = 1; lanes <= 4; ++lanes) {
    Scenario s = base();
    s.elements = 352;
    s.lanes = lanes;
    expect_exact(s);
  }
}

TEST(Geometry, SlotsWindowsAndLookAheadGiveTheSameBits) {
  for (const std::uint32_t slots : {1U, 4U, 32U, 512U}) {
    for (const std::int64_t ahead : {-1L, 0L, 1L, 7L}) {
      Scenario s = base();
      s.elements = 704;
      s.slots = slots;
      s.lookahead = ahead;
      expect_exact(s);
    }
  }
}

TEST(Geometry, ByteOrderAndArrivalGiveTheSameBits) {
  for (const double loss : {0.0, 0.01, 0.3}) {
    for (const auto order : {endpoint::PayloadOrder::little, endpoint::PayloadOrder::big}) {
      Scenario s = base();
      s.elements = 352;
      s.order = order;
      s.network.loss = loss;
      expect_exact(s);
    }
  }
}

TEST(Geometry, SixtyFourMembersOnOneSwitch) {
  Scenario s = base();
  s.members = 64;
  s.elements = 352;
  s.operations.resize(3);
  expect_exact(s);
}

}  // namespace
}  // namespace passing::rehearse
