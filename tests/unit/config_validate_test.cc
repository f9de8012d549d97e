// include/passing/config.h: which settings are refused, and in which words.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "passing/config.h"

namespace passing {
namespace {

Config valid() {
  Config config;
  config.rank = 1;
  config.size = 4;
  config.directory = "/shared";
  return config;
}

std::string complaint_with(void (*change)(Config&)) {
  Config config = valid();
  change(config);
  const auto result = config.validate();
  return result ? "" : result.error().message;
}

TEST(CommunicatorConfig, WhatIsValid) {
  EXPECT_EQ(complaint_with([](Config&) {}), "");
  EXPECT_TRUE(Config().validate());
  EXPECT_EQ(complaint_with([](Config& c) { c.size = 65535; }), "");
  EXPECT_EQ(complaint_with([](Config& c) { c.job = "A-job_1.x"; }), "");
  EXPECT_EQ(complaint_with([](Config& c) { c.strategy = "ring"; }), "");
  EXPECT_EQ(complaint_with([](Config& c) { c.lanes = 64, c.slots = 32768; }), "");
  EXPECT_EQ(
      complaint_with([](Config& c) { c.directory = "", c.controller = "tor:9001", c.token = "12345678"; }),
      "");
  EXPECT_EQ(complaint_with([](Config& c) {
              c.directory = "";
              c.exchange = [](const std::string&) { return std::vector<std::string>(4); };
            }),
            "");
  // A controller that nobody asks needs no token.
  EXPECT_EQ(complaint_with([](Config& c) { c.controller = "tor:9001", c.strategy = "ring"; }), "");
}

TEST(CommunicatorConfig, RanksAreRefusedWithTheirRange) {
  EXPECT_EQ(complaint_with([](Config& c) { c.size = 0; }), "size is 0: must be 1 to 65535 (PASSING_SIZE)");
  EXPECT_EQ(complaint_with([](Config& c) { c.size = 65536; }),
            "size is 65536: must be 1 to 65535 (PASSING_SIZE)");
  EXPECT_EQ(complaint_with([](Config& c) { c.rank = 4; }), "rank is 4: must be 0 to 3 (PASSING_RANK)");
  EXPECT_EQ(complaint_with([](Config& c) { c.local_rank = 1; }),
            "local_rank is 1: must be below local_size, 1 (PASSING_LOCAL_RANK)");
  EXPECT_EQ(complaint_with([](Config& c) { c.local_size = 0; }),
            "local_rank is 0: must be below local_size, 0 (PASSING_LOCAL_RANK)");
}

TEST(CommunicatorConfig, CarriersAreRefusedWithTheirRemedy) {
  EXPECT_EQ(complaint_with([](Config& c) { c.carrier = "memory", c.strategy = "ring"; }), "");
  EXPECT_EQ(complaint_with([](Config& c) { c.carrier = "pigeon"; }),
            "carrier is 'pigeon': must be one of tcp, memory (PASSING_CARRIER)");
  EXPECT_EQ(
      complaint_with([](Config& c) { c.carrier = "memory", c.strategy = "ps", c.servers = "ps0:9100"; }),
      "carrier is 'memory' but the strategy 'ps' has servers, which are other processes: set "
      "PASSING_CARRIER to tcp, or PASSING_STRATEGY to another one");
}

TEST(CommunicatorConfig, JobsMustSuitTheController) {
  EXPECT_EQ(complaint_with([](Config& c) { c.job = "a b"; }),
            "job is 'a b': must be 1 to 100 letters, digits, dots, dashes or underscores (PASSING_JOB)");
  EXPECT_NE(complaint_with([](Config& c) { c.job = ""; }), "");
  EXPECT_NE(complaint_with([](Config& c) { c.job = "a/b"; }), "");
  EXPECT_NE(complaint_with([](Config& c) { c.job = std::string(101, 'a'); }), "");
  EXPECT_EQ(complaint_with([](Config& c) { c.job = std::string(100, 'a'); }), "");
}

TEST(CommunicatorConfig, StrategiesAreKnownAndPossible) {
  EXPECT_EQ(strategies(),
            (std::vector<std::string>{"auto", "ring", "halving_doubling", "ring_hierarchical", "in_network",
                                      "passing", "ps", "ps_hierarchical", "ps_sharded"}));
  EXPECT_EQ(complaint_with([](Config& c) { c.strategy = "star"; }),
            "strategy is 'star': must be one of auto, ring, halving_doubling, ring_hierarchical, in_network, "
            "passing, ps, "
            "ps_hierarchical, "
            "ps_sharded (PASSING_STRATEGY)");
  EXPECT_EQ(complaint_with([](Config& c) { c.strategy = "in_network"; }),
            "strategy is 'in_network' but controller is empty: set PASSING_CONTROLLER to HOST:PORT of the "
            "switch, or "
            "PASSING_STRATEGY to ring");
  // Also where a controller chooses the strategy.
  EXPECT_EQ(complaint_with([](Config& c) {
              c.size = 65, c.controller = "tor:9001", c.token = "12345678", c.strategy = "in_network";
            }),
            "size is 65: the strategy 'in_network' takes at most 64 ranks; set PASSING_STRATEGY to ring");
}

TEST(CommunicatorConfig, RanksMustFindEachOther) {
  EXPECT_EQ(
      complaint_with([](Config& c) { c.directory = ""; }),
      "size is 4 but nothing says how ranks find each other: set PASSING_DIRECTORY to a directory that all "
      "share, or PASSING_CONTROLLER to HOST:PORT of the switch");
  EXPECT_EQ(
      complaint_with([](Config& c) {
        c.directory = "", c.controller = "tor:9001", c.token = "12345678", c.strategy = "ring", c.size = 1025;
      }),
      "size is 1025: a controller brings at most 1024 ranks together; set PASSING_DIRECTORY to a directory "
      "that all share");
  const char* short_token =
      "token has 7 characters: the controller wants at least 8, the same on all ranks (PASSING_TOKEN or "
      "PASSING_TOKEN_FILE)";
  EXPECT_EQ(complaint_with([](Config& c) { c.controller = "tor:9001", c.token = "1234567"; }), short_token);
  EXPECT_EQ(complaint_with([](Config& c) {
              c.directory = "", c.controller = "tor:9001", c.token = "1234567", c.strategy = "ring";
            }),
            short_token);
}

TEST(CommunicatorConfig, LimitsAreNamed) {
  EXPECT_EQ(complaint_with([](Config& c) { c.timeout = {}; }),
            "timeout is 0 seconds: must be above 0, at most 1000000000 (PASSING_TIMEOUT)");
  EXPECT_EQ(complaint_with([](Config& c) { c.create_timeout = std::chrono::milliseconds(-1500); }),
            "create_timeout is -1.5 seconds: must be above 0, at most 1000000000 (PASSING_CREATE_TIMEOUT)");
  EXPECT_NE(complaint_with([](Config& c) { c.timeout = std::chrono::milliseconds::max(); }), "");
  EXPECT_EQ(complaint_with([](Config& c) { c.lanes = 65; }),
            "lanes is 65: must be 1 to 64, or 0 for the default (PASSING_LANES)");
  for (const std::uint32_t slots : {3U, 65536U}) {
    Config config = valid();
    config.slots = slots;
    EXPECT_EQ(config.validate().error().message,
              "slots is " + std::to_string(slots) +
                  ": must be a power of two from 1 to 32768, or 0 for the default (PASSING_SLOTS)");
  }
}

}  // namespace
}  // namespace passing
