// docs/protocol.md section 1: an impossible configuration gets one line with setting and range.
#include "endpoint/config.h"

#include <gtest/gtest.h>

namespace passing::endpoint {
namespace {

Config valid() {
  Config config;
  config.switch_addresses.resize(1);
  return config;
}

std::string complaint(const Config& config) {
  const auto result = config.validate();
  return result ? "" : result.error().message;
}

TEST(Config, DefaultsAreValid) { EXPECT_EQ(complaint(valid()), ""); }

TEST(Config, EverySettingIsNamedWithValueAndRange) {
  const auto with = [](auto change) {
    Config config = valid();
    change(config);
    return complaint(config);
  };
  EXPECT_EQ(with([](Config& c) { c.members = 0; }), "members is 0: must be 1 to 64");
  EXPECT_EQ(with([](Config& c) { c.members = 65; }), "members is 65: must be 1 to 64");
  EXPECT_EQ(with([](Config& c) { c.member = 1; }), "member is 1: must be 0 to 0");
  EXPECT_EQ(with([](Config& c) { c.tree_members = 1024; }), "tree_members is 1024: must be 1 to 1023");
  EXPECT_EQ(with([](Config& c) { c.lanes = 0; }), "lanes is 0: must be 1 to 64");
  EXPECT_EQ(with([](Config& c) { c.slots = 3; }), "slots is 3: must be a power of two from 1 to 32768");
  EXPECT_EQ(with([](Config& c) { c.slots = 65536; }),
            "slots is 65536: must be a power of two from 1 to 32768");
  EXPECT_EQ(with([](Config& c) { c.elements = 0; }), "elements is 0: must be 1 to 2112");
  EXPECT_EQ(with([](Config& c) { c.elements = 353; }),
            "block_elements is 2112: must be a multiple of elements (353), at most 128 times");
  EXPECT_EQ(with([](Config& c) { c.lookahead = -2; }),
            "lookahead is -2: must be 0 to 65535, or -1 for the default");
  EXPECT_EQ(with([](Config& c) { c.first_sequence = 256; }),
            "first_sequence is 256: must be a multiple of twice the slots");
  EXPECT_EQ(with([](Config& c) { c.switch_addresses.clear(); }),
            "switch_addresses is 0: must be one per lane");
  EXPECT_EQ(with([](Config& c) { c.names = {"a", "b"}; }), "names is 2: must be one per member, or none");
  EXPECT_EQ(with([](Config& c) { c.minimum_timeout = 0; }),
            "minimum_timeout is 0: must be above 0 and at most maximum_timeout");
  EXPECT_EQ(with([](Config& c) { c.initial_timeout = 1; }),
            "initial_timeout is 1: must be between minimum_timeout and maximum_timeout");
  EXPECT_EQ(with([](Config& c) { c.grace = 0; }), "grace is 0: must be above 0");
}

TEST(Config, Section63DefaultLookAheadKeepsAllSlotsBusy) {
  Config config = valid();
  EXPECT_EQ(config.blocks_ahead(), 43U);  // 43 x 6 packets >= 256 slots
  config.elements = 2112;
  EXPECT_EQ(config.blocks_ahead(), 256U);
}

}  // namespace
}  // namespace passing::endpoint
