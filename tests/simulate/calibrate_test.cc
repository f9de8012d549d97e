// docs/simulation.md, section 5: what a benchmark tells, and how far a simulation is from it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "simulate/some.h"
#include "simulate/validate.h"
#include "temporary.h"

namespace passing::simulate {
namespace {

Measured some_measured(const Strategy& strategy, double bytes, unsigned in_flight) {
  return {.strategy = strategy,
          .hosts = 4,
          .ranks = 2,
          .servers = 1,
          .rate = 2e8,
          .bytes = bytes,
          .repeat = 4,
          .in_flight = in_flight};
}

// A lab that is as the model says must be found again.
TEST(Calibration, FindsWhatWasPutIn) {
  const Cluster like = some_cluster(4, 2, 4, Placement::spine);
  Cluster truth = like;
  truth.switch_efficiency = 0.8;
  truth.mesh_efficiency = 0.7;
  truth.server_efficiency = 0.6;
  truth.message_us = 450;
  truth.round_trip_us = 900;
  std::vector<Measured> rows;
  for (const Strategy& strategy : all_strategies()) {
    if (strategy.rack) continue;
    rows.push_back(some_measured(strategy, 16e6, 2));
    rows.push_back(some_measured(strategy, 1000, 1));
  }
  for (Measured& each : rows) {
    const auto layout = lay_out(cluster_of(each, truth), 8);
    each.seconds = steady_seconds(each.strategy, *layout, each.bytes, each.in_flight);
  }
  const auto found = calibrate(rows, like);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_NEAR(found->switch_efficiency, 0.8, 0.01);
  EXPECT_NEAR(found->mesh_efficiency, 0.7, 0.01);
  EXPECT_NEAR(found->server_efficiency, 0.6, 0.01);
  EXPECT_NEAR(found->message_us, 450, 15);
  EXPECT_NEAR(found->round_trip_us, 900, 15);
  Cluster calibrated = like;
  found->apply(calibrated);
  EXPECT_EQ(calibrated.switch_efficiency, found->switch_efficiency);
  EXPECT_NE(to_text(*found).find("[transport]\nswitch_efficiency = 0.8\n"), std::string::npos)
      << to_text(*found);
  // And the simulation then says what was measured.
  for (const Measured& each : rows) {
    const auto compared = compare(each, calibrated, false);
    ASSERT_TRUE(compared) << compared.error().message;
    EXPECT_NEAR(compared->error(), 0, 0.05) << each.name();
  }
}

TEST(Calibration, SaysWhatItCannotTell) {
  std::vector<Measured> rows = {some_measured({"ring"}, 16e6, 2)};
  rows[0].seconds = 2;
  const auto found = calibrate(rows, some_cluster(4, 2, 4, Placement::spine));
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->mesh_efficiency, 0.585, 0.001);
  EXPECT_EQ(found->switch_efficiency, found->mesh_efficiency);  // borrowed
  EXPECT_LT(found->message_us, 0);
  EXPECT_TRUE(to_json(*found)["round_trip_us"].is_null());
  EXPECT_FALSE(calibrate({}, some_cluster(4, 2, 4, Placement::spine)));
}

TEST(Comparison, MedianAndWorstAreOfOtherCases) {
  Comparisons all;
  for (const double simulated : {1.5, 0.9, 1.2, 1.0}) {
    Comparison one{.measured = some_measured({"ring"}, 1e6, 1), .simulated_seconds = simulated};
    one.measured.seconds = 1;
    one.calibrated_on = simulated == 1.5;
    all.rows.push_back(one);
  }
  EXPECT_EQ(all.cases(), 3U);
  EXPECT_NEAR(all.median_error(), 0.1, 1e-12);
  EXPECT_NEAR(all.worst_error(), 0.2, 1e-12);
  EXPECT_NE(to_text(all).find("3 cases beside what it was calibrated on: median error 10.0 %, worst 20.0 %"),
            std::string::npos);
  EXPECT_EQ(to_json(all)["rows"].size(), 4U);
}

// A cluster has one kind of switch: what another one did beside it does not count.
TEST(BenchFile, OneDataplaneCounts) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("dataplanes.json");
  std::ofstream(path)
      << R"({"format": "passing-bench", "results": [)"
      << R"({"strategy": "passing", "dataplane": "tc", "hosts": 4, "rate_bps": 1e9, "bytes": 1e6, "median_seconds": 0.1},)"
      << R"({"strategy": "passing", "dataplane": "xdp", "hosts": 4, "rate_bps": 1e9, "bytes": 1e6, "median_seconds": 0.2},)"
      << R"({"strategy": "ring", "dataplane": "", "hosts": 4, "rate_bps": 1e9, "bytes": 1e6, "median_seconds": 0.3}]})";
  const auto rows = read_bench(path);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ((*rows)[0].seconds, 0.1);
  EXPECT_EQ((*rows)[1].seconds, 0.3);
}

TEST(BenchFile, WhatIsWrongIsSaid) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("bench.json");
  const auto error = [&](const std::string& text) {
    std::ofstream(path) << text;
    const auto rows = read_bench(path);
    return rows ? "" : rows.error().message;
  };
  EXPECT_NE(
      error("{").find("is not a file of results of a benchmark: `passing bench --json FILE` writes one"),
      std::string::npos);
  EXPECT_NE(error(R"({"format": "passing-bench", "results": []})")
                .find("has no result of a strategy on several hosts"),
            std::string::npos);
  EXPECT_EQ(
      error(
          R"({"format": "passing-bench", "results": [{"strategy": "gloo"}, 3, {"strategy": "ring", "hosts": 4,
      "ranks_per_host": 1, "rate_bps": 1e9, "bytes": 1000000, "median_seconds": 0.1}]})"),
      "");
  EXPECT_NE(read_bench(testing::TempDir()).error().message.find("is a directory"), std::string::npos);
  EXPECT_NE(read_bench("/nowhere.json").error().message.find("cannot be read (No such file or directory)"),
            std::string::npos);
}

}  // namespace
}  // namespace passing::simulate
