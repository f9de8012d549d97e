// Cluster files: docs/simulation.md, section 4. Errors name line, key and what was expected.
#include "simulate/cluster.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary.h"

namespace passing::simulate {
namespace {

const char* const kGood =
    "name = \"mine\"\n"       // 1
    "[hosts]\n"               // 2
    "count = 8\n"             // 3
    "gpus_per_host = 4\n"     // 4
    "in_host_gbps = 80\n"     // 5
    "nic_gbps = 25.5\n"       // 6
    "[racks]\n"               // 7
    "hosts_per_rack = 4\n"    // 8
    "oversubscription = 1\n"  // 9
    "[switch]\n"              // 10
    "placement = \"tree\"\n"  // 11
    "slots = 512\n"           // 12
    "members = 64\n"          // 13
    "[latency]\n"             // 14
    "message_us = 20\n"       // 15
    "in_host_us = 5\n"        // 16
    "round_trip_us = 10\n";   // 17

std::string with(const std::string& old, const std::string& now) {
  std::string text = kGood;
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

class ClusterFile : public testing::Test {
 protected:
  Expected<Cluster> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_cluster(path_);
  }
  // What it says, without the name of the file.
  std::string error(const std::string& text) {
    const auto cluster = read(text);
    if (cluster) return "";
    const std::string& message = cluster.error().message;
    EXPECT_EQ(message.substr(0, path_.size()), path_);
    return message.substr(path_.size());
  }

  test::TemporaryDirectory directory_;
  std::string path_ = directory_.file("cluster.toml");
};

TEST_F(ClusterFile, IsRead) {
  const auto cluster = read(kGood);
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->name, "mine");
  EXPECT_EQ(cluster->gpus(), 32U);
  EXPECT_EQ(cluster->nic_gbps, 25.5);
  EXPECT_EQ(cluster->placement, Placement::tree);
  EXPECT_EQ(cluster->servers, 0U);
  EXPECT_FALSE(cluster->has_straggler());
}

TEST_F(ClusterFile, ThoseThatComeWithUs) {
  for (const auto& [name, gpus] :
       {std::pair{"testbed", 32U}, {"gpus1024", 1024U}, {"gpus65536", 65536U}, {"lab", 8U}}) {
    const auto cluster = read_cluster(std::string(PASSING_SOURCE_DIR) + "/share/clusters/" + name + ".toml");
    ASSERT_TRUE(cluster) << cluster.error().message;
    EXPECT_EQ(cluster->name, name);
    EXPECT_EQ(cluster->gpus(), gpus);
  }
}

TEST_F(ClusterFile, Missing) {
  EXPECT_EQ(error(with("nic_gbps = 25.5\n", "")),
            ":2: hosts.nic_gbps is missing: expected a number from 0.001 to 1000000");
  EXPECT_EQ(error(with("slots = 512\n", "")), ":10: switch.slots is missing: expected a whole number");
  EXPECT_EQ(error(with("placement = \"tree\"\n", "")),
            R"(:10: switch.placement is missing: expected "none", "spine" or "tree")");
  EXPECT_EQ(error(with("round_trip_us = 10\n", "")),
            ":14: latency.round_trip_us is missing: expected a number from 0 on");
  EXPECT_EQ(error(with("name = \"mine\"\n", "")), ": name is missing: expected a text");
  EXPECT_EQ(error(""), ": name is missing: expected a text");
  EXPECT_EQ(error("name = \"a\"\n[switch]\nplacement = \"none\"\n"),
            ": hosts.count is missing: expected a whole number from 1 to 1000000");
  EXPECT_EQ(error(std::string(kGood) + "[straggler]\nlink_factor = 2\n"),
            ":18: straggler.host is missing: expected the number of a host");
  EXPECT_EQ(error(std::string(kGood) + "[servers]\nnic_gbps = 2\n"),
            ":18: servers.count is missing: expected a whole number from 1 on");
}

TEST_F(ClusterFile, Misspelt) {
  EXPECT_EQ(error(with("nic_gbps", "nic_gps")),
            ":6: hosts.nic_gps: unknown key; expected one of count, gpus_per_host, in_host_gbps, nic_gbps");
  EXPECT_EQ(error(with("[racks]", "[rack]")),
            ":7: rack: unknown key; expected name, or one of the tables [hosts], [latency], [racks], "
            "[servers], [straggler], "
            "[switch], [transport]");
  EXPECT_EQ(error(with("\"tree\"", "\"trees\"")),
            R"(:11: switch.placement is 'trees': expected "none", "spine" or "tree")");
}

TEST_F(ClusterFile, NegativeZeroAndTooLarge) {
  EXPECT_EQ(error(with("count = 8", "count = -8")),
            ":3: hosts.count is -8: expected a whole number from 1 to 1000000");
  EXPECT_EQ(error(with("25.5", "0")), ":6: hosts.nic_gbps is 0: expected a number from 0.001 to 1000000");
  EXPECT_EQ(error(with("25.5", "nan")), ":6: hosts.nic_gbps is nan: expected a number from 0.001 to 1000000");
  EXPECT_EQ(error(with("message_us = 20", "message_us = -0.5")),
            ":15: latency.message_us is -0.5: expected a number from 0 to 1000000");
  EXPECT_EQ(error(with("gpus_per_host = 4", "gpus_per_host = 4.5")),
            ":4: hosts.gpus_per_host is 4.5: expected a whole number from 1 to 64");
  EXPECT_EQ(error(with("count = 8", "count = \"8\"")),
            ":3: hosts.count is '8': expected a whole number from 1 to 1000000");
  EXPECT_EQ(error(std::string(kGood) + "[transport]\nmesh_efficiency = 1.5\n"),
            ":19: transport.mesh_efficiency is 1.5: expected a number from 0.01 to 1");
}

TEST_F(ClusterFile, Contradictory) {
  EXPECT_EQ(error(with("hosts_per_rack = 4", "hosts_per_rack = 9")),
            ":8: racks.hosts_per_rack is 9, but hosts.count is 8: expected at most as many");
  EXPECT_EQ(
      error(with("\"tree\"", "\"none\"")),
      R"(:12: switch.slots contradicts switch.placement = "none": expected no such key, or a placement)");
  EXPECT_EQ(error(with("members = 64", "members = 3")),
            ":8: racks.hosts_per_rack is 4, but a switch takes switch.members = 3: expected at most as many, "
            "so that the switch "
            "of a rack can sum it");
  EXPECT_EQ(error(std::string(kGood) + "[straggler]\nhost = 8\ncompute_factor = 2\n"),
            ":19: straggler.host is 8, but hosts.count is 8: expected a host from 0 to 7");
}

TEST_F(ClusterFile, NoToml) {
  EXPECT_EQ(error("name = \"a\"\nhosts = = 3\n").substr(0, 15), ":2: is not TOML");
  EXPECT_EQ(error(with("[hosts]\ncount = 8\ngpus_per_host = 4\nin_host_gbps = 80\nnic_gbps = 25.5\n",
                       "hosts = 8\n")),
            ":2: hosts: expected a table, [hosts]");
  const auto none = read_cluster("/nowhere/cluster.toml");
  EXPECT_EQ(none.error().message,
            "/nowhere/cluster.toml cannot be read (No such file or directory): docs/simulation.md says what "
            "a cluster file is");
}

}  // namespace
}  // namespace passing::simulate
