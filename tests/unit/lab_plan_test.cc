// Names, places and links of a lab: docs/lab.md.
#include <gtest/gtest.h>

#include <set>

#include "lab/names.h"
#include "lab/plan.h"

namespace passing::lab {
namespace {

TEST(LabPlan, RatesAsTcWritesThem) {
  EXPECT_EQ(bits_per_second("none"), 0);
  EXPECT_EQ(bits_per_second("1gbit"), 1e9);
  EXPECT_EQ(bits_per_second("2.5gbit"), 2.5e9);
  EXPECT_EQ(bits_per_second("200mbit"), 2e8);
  EXPECT_EQ(bits_per_second("64kbit"), 64e3);
  EXPECT_EQ(bits_per_second("1tbit"), 1e12);
  EXPECT_EQ(bits_per_second("1000"), 1000);
}

TEST(LabPlan, RacksHaveHostsInARowAsEvenlyAsPossible) {
  for (unsigned hosts = 1; hosts <= 20; ++hosts) {
    for (unsigned racks = 1; racks <= hosts; ++racks) {
      const Plan plan{.hosts = hosts, .racks = racks};
      std::vector<unsigned> sizes(racks);
      for (unsigned h = 0; h < hosts; ++h) {
        ASSERT_LT(plan.rack_of(h), racks);
        if (h > 0) {
          ASSERT_GE(plan.rack_of(h), plan.rack_of(h - 1));
        }
        ++sizes[plan.rack_of(h)];
      }
      for (const unsigned each : sizes) {
        EXPECT_GE(each, hosts / racks);
        EXPECT_LE(each, (hosts + racks - 1) / racks);
      }
    }
  }
}

TEST(LabPlan, UplinksHaveTheirOwnRateOrThatOfHosts) {
  Plan plan{.rate = "1gbit"};
  EXPECT_EQ(plan.uplink_rate(), "1gbit");
  plan.spine_rate = "400mbit";
  EXPECT_EQ(plan.uplink_rate(), "400mbit");
}

TEST(LabMap, FindsWhatItNames) {
  const Map map({.hosts = 3, .servers = 1, .racks = 2}, "lab-");
  EXPECT_EQ(map.machines(), 4U);
  EXPECT_EQ(map.host_name(2), "host2");
  EXPECT_EQ(map.host_name(3), "server0");
  EXPECT_EQ(map.find("host1"), map.host_namespace(1));
  EXPECT_EQ(map.find("server0"), map.host_namespace(3));
  EXPECT_EQ(map.find("switch"), map.switch_namespace());
  for (const char* none : {"host3", "server1", "tor2", "host", ""}) EXPECT_EQ(map.find(none), "") << none;
  const auto all = map.namespaces();
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
  for (const auto& each : all) EXPECT_TRUE(each.starts_with("lab-")) << each;
}

TEST(LabMap, NamesWhatHasAnAddress) {
  EXPECT_EQ(hosts_text(Map({.hosts = 2, .servers = 1}, "a-"), "127.0.0.1 localhost\n"),
            "10.77.0.1 switch spine tor0\n10.77.0.2 host0\n10.77.0.3 host1\n10.77.0.4 server0\n"
            "127.0.0.1 localhost\n");
  EXPECT_EQ(hosts_text(Map({.hosts = 2, .racks = 2}, "a-"), ""),
            "10.77.0.1 switch spine\n10.77.0.2 host0\n10.77.0.3 host1\n");
}

TEST(LabMap, HasALinkPerMachineAndWithSeveralRacksOnePerRack) {
  const Map one({.hosts = 3, .servers = 1, .rate = "1gbit"}, "a-");
  EXPECT_EQ(one.wires().size(), 4U);
  const Map two({.hosts = 3, .servers = 1, .racks = 2, .rate = "1gbit", .spine_rate = "100mbit"}, "a-");
  const auto wires = two.wires();
  ASSERT_EQ(wires.size(), 6U);
  std::set<std::string> names;
  std::set<std::pair<std::string, std::string>> ends;
  for (const Wire& each : wires) {
    names.insert(each.name);
    ends.insert({each.lower.where, each.lower.device});
    ends.insert({each.upper.where, each.upper.device});
    EXPECT_EQ(each.rate, each.kind == LinkKind::rack ? "100mbit" : "1gbit");
  }
  EXPECT_EQ(names, (std::set<std::string>{"host0", "host1", "host2", "server0", "rack0", "rack1"}));
  EXPECT_EQ(ends.size(), 12U);
}

}  // namespace
}  // namespace passing::lab
