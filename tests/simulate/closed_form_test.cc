// docs/simulation.md 1.1 to 1.6, written down once more, against the engine: at most 1e-6 apart.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>

#include "benchmark/limits.h"
#include "simulate/some.h"

namespace passing::simulate {
namespace {

constexpr std::size_t kElements = 6'553'600;  // 26 MB, a bucket
constexpr double kTolerance = 1e-6;

struct Shape {
  unsigned hosts, gpus, hosts_per_rack;
  Placement placement;
};

/// The tables of 1.2 and 1.4, for racks of equal size.
struct Formula {
  Cluster c;
  double H, G, S, P, R, N;
  double alpha, beta, rho;
  double bytes = 4.0 * kElements;

  Formula(const Cluster& cluster, const Shape& shape)
      : c(cluster),
        H(shape.hosts),
        G(shape.gpus),
        S(shape.hosts_per_rack),
        P(H * G),
        R(std::ceil(H / S)),
        N(cluster.servers),
        alpha(1e-6 * cluster.message_us),
        beta(shape.gpus > 1 ? 1e-6 * cluster.in_host_us : 0),
        rho(1e-6 * (cluster.round_trip_us + (R > 1 ? cluster.level_us : 0))) {}

  static double rate(double gbps) { return 1e9 / 8 * gbps; }
  double tree(double many) const { return c.placement == Placement::tree ? 1 : many; }

  double slowest(double bus, double host, double rack, double server, double wire) const {
    const double uplink = S * c.nic_gbps / c.oversubscription;
    return bytes * std::max({bus / rate(c.in_host_gbps), wire * host / rate(c.nic_gbps),
                             R > 1 ? wire * rack / rate(uplink) : 0, wire * server / rate(c.server_gbps)});
  }
  double in_slots(double seconds) const {
    return std::max(seconds, bytes * rho / (c.slots * 4.0 * c.elements_per_packet));
  }

  double halving(double wire) const {
    double sum = 0;
    for (double d = P / 2; d >= 1; d /= 2) {
      const bool leaves = d >= G;
      const double host = leaves ? G * d / P : 0;
      const double rack = d >= S * G ? S * host : 0;
      sum += 2 * (slowest(leaves ? 0 : d / P, host, rack, 0, wire) + (leaves ? alpha : beta));
    }
    return sum;
  }

  double seconds(const std::string& name) const {
    const double to_switch = (4.0 * 352 + 78) / (4.0 * 352) / 0.97;
    const double mesh = 1514.0 / 1448 / 0.93;
    const double server = 1514.0 / 1448 / 0.9;
    const double sums = 2 * (G - 1) / G;
    const double across = H > 1 ? 1 : 0;
    if (name == "ps") return slowest(0, G, S * G, P / N, server) + 2 * alpha;
    if (name == "ps_hierarchical") return slowest(sums, 1, S, H / N, server) + 2 * alpha + 2 * beta;
    if (name == "ps_sharded")
      return slowest((G - 1) / H, 2 * G * (H - 1) / H, 2 * G * S * (H - S) / H, 0, mesh) +
             (H > 1 ? 2 * alpha : 2 * beta);
    if (name == "ring") {
      const double load = 2 * (P - 1) / P;
      return slowest(G > 1 ? load : 0, across * load, load, 0, mesh) + 2 * (H - 1) * alpha +
             2 * (P - H) * beta;
    }
    if (name == "ring_hierarchical") {
      const double load = 2 * (H - 1) / H;
      return slowest(sums, load, load, 0, mesh) + 2 * (H - 1) * alpha + 2 * beta;
    }
    if (name == "halving_doubling") return halving(mesh);
    if (name == "in_network") return in_slots(slowest(0, G, tree(S * G), 0, to_switch)) + 2 * rho;
    if (H == 1) return slowest(sums, 0, 0, 0, to_switch) + 2 * beta;
    if (name == "passing") return in_slots(slowest(sums, 1, tree(S), 0, to_switch)) + 2 * rho + 2 * beta;
    // Host to host in the rack, whatever comes after.
    if (R == 1) return slowest(sums, 2 * (H - 1) / H, 0, 0, mesh) + 2 * alpha + 2 * beta;
    const double of_host = (mesh * 2 * (S - 1) + to_switch) / S;
    return in_slots(slowest(sums, of_host / to_switch, 1, 0, to_switch)) + 2 * rho + 2 * alpha + 2 * beta;
  }
};

constexpr Shape kShapes[] = {
    {1, 4, 1, Placement::spine}, {4, 1, 4, Placement::spine}, {4, 2, 4, Placement::spine},
    {8, 1, 2, Placement::spine}, {8, 4, 4, Placement::tree},  {16, 8, 4, Placement::spine},
    {32, 8, 8, Placement::tree}, {6, 3, 3, Placement::spine}, {64, 4, 16, Placement::tree}};

/// Says how far apart they were: a claim reads it.
class ClosedForm : public testing::Test {
 protected:
  static void TearDownTestSuite() { std::printf("largest error in millionths: %g\n", 1e6 * largest_); }
  static void compare(double found, double expected, const std::string& what) {
    largest_ = std::max(largest_, std::abs(found / expected - 1));
    EXPECT_NEAR(found / expected, 1, kTolerance) << what;
  }
  static void check(
      const Shape& shape, Level level, const std::function<void(Cluster&)>& change = [](Cluster&) {});

 private:
  static inline double largest_ = 0;
};

void ClosedForm::check(const Shape& shape, Level level, const std::function<void(Cluster&)>& change) {
  Cluster cluster = some_cluster(shape.hosts, shape.gpus, shape.hosts_per_rack, shape.placement);
  change(cluster);
  for (const Strategy& strategy : all_strategies()) {
    if (strategy.base == "halving_doubling" && !std::has_single_bit(shape.hosts * shape.gpus)) continue;
    const double expected = Formula(cluster, shape).seconds(strategy.name());
    const double found =
        seconds_of(some_question(strategy, cluster, cluster.gpus(), level, one_bucket(kElements)));
    compare(found, expected,
            fmt::format("{} {} x {} in racks of {}", strategy.name(), shape.hosts, shape.gpus,
                        shape.hosts_per_rack));
  }
}

TEST_F(ClosedForm, Folded) {
  for (const Shape& shape : kShapes) check(shape, Level::folded);
}

TEST_F(ClosedForm, Explicit) {
  for (const Shape& shape : kShapes) check(shape, Level::explicit_flows);
}

TEST_F(ClosedForm, FewSlotsAndSlowBuses) {
  for (const Level level : {Level::folded, Level::explicit_flows}) {
    check({8, 4, 4, Placement::tree}, level, [](Cluster& cluster) { cluster.slots = 16; });
    check({8, 4, 4, Placement::spine}, level, [](Cluster& cluster) { cluster.in_host_gbps = 3; });
  }
}

TEST_F(ClosedForm, AtFullSize) {
  const Shape shape{8192, 8, 32, Placement::tree};
  check(shape, Level::folded);
}

// 1.2: a switch that sums by its processor takes in one tensor per member.
TEST_F(ClosedForm, Ingest) {
  Cluster cluster = some_cluster(8, 2, 8, Placement::spine);
  cluster.ingest_gbps = 12;
  const double wire = wire_factor({"passing"}, cluster);
  const double each = 4.0 * kElements * wire / (12e9 / 8);
  for (const Level level : {Level::folded, Level::explicit_flows}) {
    const auto seconds = [&](const char* name) {
      return seconds_of(some_question({name}, cluster, 16, level, one_bucket(kElements)));
    };
    compare(seconds("passing"), 8 * each + 2 * 17e-6 + 2 * 7e-6, "passing");
    compare(seconds("in_network"), 16 * each + 2 * 17e-6, "in_network");
  }
}

// 1.3: small tensors are exchanged whole, in half as many steps.
TEST_F(ClosedForm, SmallTensorsAreNotHalved) {
  const Cluster cluster = some_cluster(4, 1, 4, Placement::none);
  const double step = 4.0 * 1024 * wire_factor({"ring"}, cluster) / (40e9 / 8) + 31e-6;
  for (const Level level : {Level::folded, Level::explicit_flows}) {
    const Question asked = some_question({"halving_doubling"}, cluster, 4, level, one_bucket(1024));
    compare(seconds_of(asked), 2 * step, "small");
  }
}

// 1.3: ranks beyond a power of two give and get everything.
TEST_F(ClosedForm, RanksBeyondAPowerOfTwo) {
  const Cluster cluster = some_cluster(3, 1, 3, Placement::none);
  const double tensor = 4.0 * kElements * wire_factor({"ring"}, cluster) / (40e9 / 8);
  for (const Level level : {Level::folded, Level::explicit_flows}) {
    const Question asked = some_question({"halving_doubling"}, cluster, 3, level, one_bucket(kElements));
    compare(seconds_of(asked), 3 * tensor + 4 * 31e-6, "three ranks");
  }
}

// The same loads as the benchmark's limits, where those are of the same strategy.
TEST(Loads, AreTheBenchmarksLimits) {
  for (const Shape& shape : kShapes) {
    if (shape.hosts == 1 || shape.placement != Placement::spine) continue;
    Cluster cluster = some_cluster(shape.hosts, shape.gpus, shape.hosts_per_rack, shape.placement);
    // Limits count tensors, whatever the headers.
    cluster.payload_bytes = 4 * cluster.elements_per_packet;
    cluster.payload_overhead = cluster.packet_overhead;
    cluster.mesh_efficiency = cluster.switch_efficiency;
    const auto layout = lay_out(cluster, cluster.gpus());
    const benchmark::Shape same{
        .hosts = shape.hosts, .ranks = shape.gpus, .racks = layout->racks, .servers = 3};
    for (const Strategy& strategy : all_strategies()) {
      if (strategy.base == "halving_doubling") continue;
      const LoadStep found = loads_of(strategy, *layout, false).front();
      const double wire = wire_factor(strategy, cluster);
      const benchmark::Load limit = benchmark::least_load(strategy.base, same, strategy.rack);
      EXPECT_NEAR(found[Kind::host_up] / wire, limit.host, 1e-9) << strategy.name();
      EXPECT_NEAR(found[Kind::rack_down] / wire, limit.uplink, 1e-9) << strategy.name();
      EXPECT_NEAR(found[Kind::server_up] / wire, strategy.through_servers() ? limit.server : 0, 1e-9);
    }
  }
}

}  // namespace
}  // namespace passing::simulate
