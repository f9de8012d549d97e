// What auto chooses: docs/collectives.md, "auto".
#include "strategy/plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace passing::strategy {
namespace {

Signature tensor(std::uint64_t bytes, DataType type = DataType::float32,
                 Reduction reduction = Reduction::sum) {
  return {.kind = Kind::all_reduce, .type = type, .reduction = reduction, .count = bytes / size_of(type)};
}

std::string row(const Plan& plan) {
  std::string text =
      fmt::format("| {} | {:g} Gbit/s | {} |", plan.hosts, plan.link_rate, plan.has_switch ? "yes" : "no");
  for (const std::uint64_t bytes : {1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20}) {
    switch (plan.choose(tensor(bytes))) {
      case Way::in_host: text += " in the host |"; break;
      case Way::network: text += " passing |"; break;
      case Way::ring:
      case Way::narrow: text += " ring |"; break;
      case Way::doubling: text += " doubling |"; break;
    }
  }
  return text;
}

TEST(Plan, IsTheTableOfTheDocumentation) {
  std::ifstream file(std::string(PASSING_SOURCE_DIR) + "/docs/collectives.md");
  std::stringstream page;
  page << file.rdbuf();
  int rows = 0;
  for (const std::size_t hosts : {1, 2, 3, 4, 16, 64}) {
    for (const double rate : {1.0, 10.0, 100.0}) {
      for (const bool has_switch : {true, false}) {
        const std::string line =
            row({.hosts = hosts, .ranks = 4 * hosts, .has_switch = has_switch, .link_rate = rate});
        EXPECT_NE(page.str().find(line + "\n"), std::string::npos) << line;
        ++rows;
      }
    }
  }
  EXPECT_EQ(rows, 36);
}

// A server with one NIC as fast as those of the hosts is a parameter server.
TEST(Plan, KnowsIncast) {
  Plan plan{.hosts = 4, .ranks = 16, .has_switch = true, .link_rate = 1, .switch_rate = 4};
  EXPECT_EQ(plan.choose(tensor(16 << 20)), Way::network);
  EXPECT_TRUE(plan.uses_switch());
  plan.switch_rate = 1;
  EXPECT_EQ(plan.choose(tensor(16 << 20)), Way::ring);
  EXPECT_FALSE(plan.uses_switch());
}

// The switch has room for 64 members: hosts, or racks of them.
TEST(Plan, GoesWithoutASwitchThatIsTooSmall) {
  Plan plan{.hosts = 65, .ranks = 65, .has_switch = true, .link_rate = 0.1};
  EXPECT_FALSE(plan.uses_switch());
  EXPECT_NE(plan.explain(tensor(4)).find("; the switch takes at most 64 hosts"), std::string::npos);
  plan.racks = 16;
  EXPECT_TRUE(plan.uses_switch());
  plan.racks = 65;
  EXPECT_FALSE(plan.uses_switch());
}

// Hosts of a rack share its uplink.
TEST(Plan, KnowsRacks) {
  Plan plan{.hosts = 8, .ranks = 8, .racks = 2, .has_switch = true, .link_rate = 0.1};
  EXPECT_EQ(plan.choose(tensor(16 << 20)), Way::network);
  EXPECT_EQ(
      plan.explain(tensor(16'000'000)),
      "all_reduce of 4000000 float32 (sum): passing; 8 ranks on 8 hosts in 2 racks, uplinks of 0.1 Gbit/s, "
      "a switch that takes in 12 Gbit/s in all; passing takes at least 1.35e+03 ms; ring_hierarchical takes "
      "at least 2.34e+03 ms; halving and doubling among hosts takes at least 9.38e+03 ms");
  plan.has_switch = false;
  EXPECT_EQ(plan.choose(tensor(16 << 20)), Way::ring);
  plan.racks = 1;  // no switch needed
  EXPECT_NE(plan.choose(tensor(16 << 20)), Way::in_host);
}

// Whoever never goes to the switch does not join it: then nothing may be sent there. 50 and 70 Gbit/s choose
// it for some 30,000 elements only.
TEST(Plan, KnowsWhetherAnySizeGoesToTheSwitch) {
  for (const std::size_t hosts : {2, 3, 4, 8, 31, 64}) {
    for (const auto& [link, rate] :
         {std::pair{50.0, 70.0}, {100.0, 95.0}, {25.0, 46.0}, {10.0, 22.6}, {400.0, 125.0}, {1.0, 1.9}}) {
      const Plan plan{
          .hosts = hosts, .ranks = hosts, .has_switch = true, .link_rate = link, .switch_rate = rate};
      bool any = false;
      for (double count = 1; count < 1e9; count = count * 1.01 + 1)
        any = any || plan.choose(tensor(4 * static_cast<std::uint64_t>(count))) == Way::network;
      // Narrow floats never go there where float32 does not.
      for (double count = 1; count < 1e9 && !any; count = count * 1.01 + 1)
        EXPECT_NE(plan.choose(tensor(2 * static_cast<std::uint64_t>(count), DataType::bfloat16)),
                  Way::network);
      EXPECT_EQ(plan.uses_switch(), any) << hosts << " hosts, " << link << " and " << rate << " Gbit/s";
    }
  }
}

TEST(Plan, LeavesToTheSwitchWhatItCanDo) {
  const Plan plan{.hosts = 4, .ranks = 16, .has_switch = true, .link_rate = 1};
  EXPECT_EQ(plan.choose(tensor(16 << 20)), Way::network);
  EXPECT_EQ(plan.choose(tensor(16 << 20, DataType::float64)), Way::ring);
  EXPECT_EQ(plan.choose(tensor(16 << 20, DataType::float32, Reduction::max)), Way::ring);
}

// Section "auto": in 32-bit words 16-bit floats take twice as long through the switch as float32 of as many
// bytes; as they are they go round the ring.
TEST(Plan, KnowsThat16BitsTravelThroughTheSwitchIn32) {
  const Plan plan{.hosts = 4, .ranks = 4, .has_switch = true, .link_rate = 0.2};
  for (const DataType type : {DataType::bfloat16, DataType::float16}) {
    EXPECT_EQ(plan.choose(tensor(8'000'000, type)), Way::narrow);
    EXPECT_NEAR(plan.seconds(Way::network, tensor(8'000'000, type)), 0.675, 0.001);
    EXPECT_NEAR(plan.seconds(Way::narrow, tensor(8'000'000, type)), 0.502, 0.001);
  }
  EXPECT_EQ(plan.choose(tensor(16'000'000)), Way::network);
  EXPECT_EQ(plan.explain(tensor(8'000'000, DataType::bfloat16)),
            "all_reduce of 4000000 bfloat16 (sum): a ring of hosts in 16 bits; 4 ranks on 4 hosts, links of "
            "0.2 Gbit/s, a switch that takes in 12 Gbit/s in all; passing takes at least 676 ms; "
            "ring_hierarchical takes at least 1e+03 ms; a ring of hosts in 16 bits takes at least 502 ms; "
            "halving and doubling among hosts takes at least 1.01e+03 ms; elements of 16 bits go through the "
            "switch as words of 32");
  // Few bytes: the switch has fewer steps.
  const Plan many{.hosts = 16, .ranks = 16, .has_switch = true, .link_rate = 1};
  EXPECT_EQ(many.choose(tensor(64, DataType::bfloat16)), Way::network);
}

// The sum may be out of the range of float16 where the average is not; bfloat16 has that of float32.
TEST(Plan, DoesNotNarrowAnAverageOfFloat16) {
  const Plan plan{.hosts = 4, .ranks = 4, .has_switch = true, .link_rate = 0.2};
  EXPECT_EQ(plan.choose(tensor(8'000'000, DataType::float16, Reduction::average)), Way::network);
  EXPECT_EQ(plan.choose(tensor(8'000'000, DataType::bfloat16, Reduction::average)), Way::narrow);
  EXPECT_EQ(plan.choose(tensor(8'000'000, DataType::float16, Reduction::product)), Way::ring);
  EXPECT_EQ(plan.choose(tensor(8'000'000, DataType::float16, Reduction::max)), Way::narrow);
}

TEST(Plan, ExplainsItself) {
  const Plan plan{.hosts = 4, .ranks = 8, .has_switch = true, .link_rate = 1};
  EXPECT_EQ(
      plan.explain(tensor(16'000'000)),
      "all_reduce of 4000000 float32 (sum): passing; 8 ranks on 4 hosts, links of 1 Gbit/s, a switch that "
      "takes in 12 Gbit/s in all; passing takes at least 135 ms; ring_hierarchical takes at least 201 ms; "
      "halving and doubling among hosts takes at least 209 ms");
  EXPECT_EQ((Plan{.hosts = 1, .ranks = 4}.explain(tensor(4))),
            "all_reduce of 1 float32 (sum): in the host; 4 ranks on 1 host, which needs no network");
  const Plan slow{.hosts = 4, .ranks = 4, .has_switch = true, .link_rate = 10, .switch_rate = 10};
  EXPECT_FALSE(slow.uses_switch());
  EXPECT_NE(slow.explain(tensor(16'000'000)).find("10 Gbit/s in all, which no tensor would go through;"),
            std::string::npos)
      << slow.explain(tensor(16'000'000));
  EXPECT_NE(plan.explain(tensor(8, DataType::int64)).find("the switch cannot do a sum of int64"),
            std::string::npos);
}

}  // namespace
}  // namespace passing::strategy
