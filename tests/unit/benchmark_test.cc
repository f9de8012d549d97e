// docs/benchmarks.md: limits, and the figures of a row.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "benchmark/row.h"

namespace passing::benchmark {
namespace {

constexpr Shape kFourByFour{.hosts = 4, .ranks = 4, .servers = 1, .rate = 200e6};

TEST(Limits, OfEveryStrategy) {
  const auto host = [](const char* strategy) { return least_load(strategy, kFourByFour, false).host; };
  EXPECT_EQ(host("passing"), 1);
  EXPECT_EQ(host("in_network"), 4);
  EXPECT_EQ(host("ring_hierarchical"), 1.5);
  EXPECT_EQ(host("halving_doubling"), 1.5);
  EXPECT_EQ(host("ring"), 2 * 15.0 / 16);
  EXPECT_EQ(host("ps_sharded"), 6);
  EXPECT_EQ(host("gloo"), 2 * 15.0 / 16);
  EXPECT_EQ(host("openmpi"), 1.5);
  EXPECT_EQ(host("auto"), 1);
  EXPECT_EQ(least_load("ps", kFourByFour, false).server, 16);
  EXPECT_EQ(least_load("ps_hierarchical", kFourByFour, false).server, 4);
  Shape two = kFourByFour;
  two.servers = 2;
  EXPECT_EQ(least_load("ps", two, false).server, 8);
  EXPECT_EQ(least_load("passing", {.hosts = 1, .ranks = 4}, false).host, 0);
}

TEST(Limits, OfRacks) {
  const Shape shape{.hosts = 8, .ranks = 1, .racks = 2, .rate = 400e6, .spine_rate = 100e6};
  const Load in_racks = least_load("passing", shape, true);
  EXPECT_EQ(in_racks.host, 1.75);
  EXPECT_EQ(in_racks.uplink, 1);
  EXPECT_EQ(least_load("passing", shape, false).uplink, 4);
  EXPECT_EQ(least_load("ring", shape, false).uplink, 1.75);
  // The uplink is the limit of both.
  const double ratio =
      least_seconds("passing", shape, false, 1 << 20) / least_seconds("passing", shape, true, 1 << 20);
  EXPECT_DOUBLE_EQ(ratio, 4);
}

// tbf counts Ethernet headers: 352 elements of 1486 bytes, and TCP's 1448 of 1514.
TEST(Limits, CountHeaders) {
  EXPECT_DOUBLE_EQ(header_ceiling("passing", 1500), 1408.0 / 1486);
  EXPECT_DOUBLE_EQ(header_ceiling("ring", 1500), 1448.0 / 1514);
  EXPECT_DOUBLE_EQ(header_ceiling("in_network", 9000), 8448.0 / (8448 + 78));
  EXPECT_DOUBLE_EQ(least_seconds("passing", {.hosts = 4, .rate = 1e9}, false, 16'000'000),
                   0.128 * 1486 / 1408);
  EXPECT_EQ(least_seconds("passing", {.hosts = 4}, false, 16'000'000), 0);
}

Row row(const std::string& strategy, const std::vector<double>& seconds) {
  Row row{.strategy = strategy, .shape = {.hosts = 4, .ranks = 1, .rate = 1e9}, .bytes = 16'000'000};
  for (const double each : seconds)
    row.samples.push_back(
        {.seconds = each, .latency = each, .cpu = 0.032, .busiest = 17e6, .busiest_link = "host0 up"});
  return row;
}

TEST(Rows, HaveTheFiguresOfTheirMedians) {
  const Row ours = row("passing", {0.150, 0.140, 0.130, 0.900});
  EXPECT_DOUBLE_EQ(ours.seconds(), 0.145);
  EXPECT_DOUBLE_EQ(ours.line_ratio(), 0.128 / 0.145);
  EXPECT_DOUBLE_EQ(ours.ceiling_ratio(), 0.128 / 0.145 * 1486 / 1408);
  EXPECT_DOUBLE_EQ(ours.limit_ratio(), ours.ceiling_ratio());
  EXPECT_DOUBLE_EQ(ours.cpu_per_gb(), 2);
  EXPECT_DOUBLE_EQ(ours.busiest(), 17e6);
}

// Rounds, not medians, are compared: a machine that is slow for a while is slow for both.
TEST(Rows, AreComparedRoundByRound) {
  Row ours = row("passing", {0.1, 0.2, 0.4});
  Row theirs = row("gloo", {0.2, 0.3, 0.8});
  theirs.peer = true;
  Row gone = row("openmpi", {});
  gone.absent = "not installed";
  const auto json = to_json(ours, {ours, theirs, gone});
  EXPECT_EQ(json["ratio_to"], (nlohmann::json{{"gloo", 2.0}}));
  for (const char* field :
       {"strategy", "hosts", "ranks_per_host", "rate_bps", "mtu", "bytes", "median_seconds", "line_ratio",
        "ceiling_ratio", "cpu_seconds_per_gb", "busiest_link_bytes", "verified"})
    EXPECT_TRUE(json.contains(field)) << field;
  EXPECT_EQ(json["verified"], true);
  const std::string table = to_table({ours, theirs, gone});
  EXPECT_NE(table.find("absent: not installed"), std::string::npos) << table;
  EXPECT_NE(table.find("x gloo"), std::string::npos) << table;
}

// The same strategy through several switches, side by side.
TEST(Rows, AreNamedByTheirDataplane) {
  Row usual = row("passing", {0.1});
  usual.dataplane = "userspace";
  Row kernel = row("passing", {0.2});
  kernel.dataplane = "tc";
  kernel.samples[0].machine_cpu = 0.08;
  kernel.samples[0].program = 0.016;
  EXPECT_EQ(usual.name(), "passing");
  EXPECT_EQ(kernel.name(), "passing@tc");
  const auto json = to_json(kernel, {usual, kernel});
  EXPECT_EQ(json["ratio_to"], (nlohmann::json{{"passing", 0.5}}));
  EXPECT_EQ(json["dataplane"], "tc");
  EXPECT_DOUBLE_EQ(json["machine_cpu_seconds_per_gb"], 5);
  EXPECT_DOUBLE_EQ(json["program_seconds_per_gb"], 1);
  EXPECT_NE(to_table({usual, kernel}).find("mach s/GB"), std::string::npos);
  EXPECT_EQ(to_table({usual}).find("mach s/GB"), std::string::npos);
}

// A record that moved too little is none.
TEST(Rows, ThatCarriedTooLittle) {
  const Row ours = row("passing", {0.1});
  EXPECT_EQ(ours.too_little(ours.samples[0]), "");
  EXPECT_EQ(ours.too_little({.busiest = 15e6, .busiest_link = {}}),
            "the busiest link carried 15000000 bytes for an operation, where passing needs 16000000: it did "
            "something else");
  EXPECT_NE(row("ring", {0.1}).too_little(ours.samples[0]), "");
  Row failed = ours;
  failed.error = "rank 3 is lost";
  EXPECT_FALSE(failed.measured());
  EXPECT_EQ(to_json(failed, {failed})["verified"], false);
}

TEST(Rows, WriteSizes) {
  EXPECT_EQ(size_text(16'000'000), "16 MB");
  EXPECT_EQ(size_text(64'000), "64 KB");
  EXPECT_EQ(size_text(1 << 20), "1.04858 MB");
  EXPECT_EQ(size_text(250), "250 B");
}

}  // namespace
}  // namespace passing::benchmark
