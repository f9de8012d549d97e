// docs/simulation.md: levels, overlap, jobs, stragglers, slots.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "simulate/row.h"
#include "simulate/some.h"

namespace passing::simulate {
namespace {

std::string shared(const std::string& name) { return std::string(PASSING_SOURCE_DIR) + "/share/" + name; }

train::Schedule schedule_of(const std::string& model) {
  return train::schedule(*train::read_model(shared("models/" + model + "-v100.json")), 1);
}

// Section 2: at most 1 % apart.
TEST(Levels, ExplicitAndFoldedAgree) {
  const Cluster cluster = *read_cluster(shared("clusters/gpus1024.toml"));
  const train::Schedule schedule = schedule_of("resnet50");
  for (const unsigned gpus : {64U, 72U, 128U, 200U, 256U, 384U, 512U, 768U, 1000U, 1024U}) {
    for (const Strategy& strategy : all_strategies()) {
      const double one = seconds_of(some_question(strategy, cluster, gpus, Level::folded, schedule));
      const double all = seconds_of(some_question(strategy, cluster, gpus, Level::explicit_flows, schedule));
      EXPECT_NEAR(one / all, 1, 0.01) << strategy.name() << " with " << gpus;
    }
  }
}

TEST(Levels, AutomaticIsExplicitAsFarAsThatGoes) {
  EXPECT_EQ(automatic_level(1024), Level::explicit_flows);
  EXPECT_EQ(automatic_level(1032), Level::folded);
  const Cluster cluster = some_cluster(2048, 1, 16, Placement::tree);
  const Question asked = some_question({"ring"}, cluster, 2048, Level::explicit_flows, one_bucket(1000));
  EXPECT_EQ(unfit(asked),
            "--level explicit: 2048 GPUs are more than the 1024 that are simulated one by one: --level "
            "folded, or auto");
}

// 1.7: three buckets of 1 s each in the network, ready after 1, 2 and 6 s of a backward pass of 7 s.
TEST(Overlap, BucketsGoOneAfterTheOtherWhileTheBackwardPassGoesOn) {
  Cluster cluster = some_cluster(2, 1, 2, Placement::none);
  cluster.payload_overhead = 0;
  cluster.mesh_efficiency = 1;
  cluster.message_us = 1e5;                                    // 0.2 s for an all-reduce of two
  const std::size_t elements = 5'000'000'000 / sizeof(float);  // 1 s at 40 Gbit/s
  const train::Schedule schedule{.forward_seconds = 3,
                                 .backward_seconds = 7,
                                 .buckets = {{elements, 1}, {elements, 1.5}, {elements, 6.5}}};
  for (const auto& [in_flight, communication] : {std::pair{1U, 3.6}, {2U, 3.4}}) {
    cluster.in_flight = in_flight;
    for (const Level level : {Level::folded, Level::explicit_flows}) {
      const auto timing = simulate(scenario_of(some_question({"ring"}, cluster, 2, level, schedule)));
      EXPECT_NEAR(timing->iteration_seconds, 3 + 6.5 + 1.2, 1e-6);
      EXPECT_NEAR(timing->communication_seconds, communication, 1e-6) << in_flight;
    }
  }
}

// 1.7: while one bucket is within racks, the next can be across them.
TEST(Overlap, StepsOfSeveralBuckets) {
  Cluster cluster = some_cluster(4, 1, 2, Placement::none);
  cluster.message_us = 0;
  const std::size_t count = 20;
  const train::Schedule many{
      .buckets = std::vector<train::Bucket>(count, {.elements = 10'000'000, .ready_seconds = 0})};
  for (const Level level : {Level::folded, Level::explicit_flows}) {
    cluster.in_flight = 1;
    const double serial = seconds_of(some_question({"halving_doubling"}, cluster, 4, level, many)) / count;
    cluster.in_flight = 4;
    const double overlapping =
        seconds_of(some_question({"halving_doubling"}, cluster, 4, level, many)) / count;
    // Two tensors over an uplink of 2 / 3 of 40 Gbit/s; and half a tensor over hosts' links, within racks.
    const double tensor = 4e7 * wire_factor({"ring"}, cluster) / (40e9 / 8);
    EXPECT_NEAR(serial, 2 * tensor * 1.5 + tensor / 2, 1e-6);
    EXPECT_GE(overlapping, 2 * tensor * 1.5 * (1 - 1e-9));
    EXPECT_LE(overlapping, 2 * tensor * 1.5 * 1.05);
  }
}

// 1.8: two jobs that always communicate have half of every link each, whatever they move.
TEST(Jobs, ShareLinksEvenly) {
  Cluster cluster = some_cluster(4, 2, 2, Placement::spine);
  cluster.message_us = cluster.in_host_us = cluster.round_trip_us = cluster.level_us = 0;
  for (const Strategy& strategy : all_strategies()) {
    for (const Level level : {Level::folded, Level::explicit_flows}) {
      Question asked = some_question(strategy, cluster, 8, level, one_bucket(4'000'000));
      const double alone = seconds_of(asked);
      asked.beside = {"some"};
      asked.beside_jobs = {asked.schedule};
      EXPECT_NEAR(seconds_of(asked) / alone, 2, 0.02) << strategy.name();
    }
  }
}

TEST(Jobs, ShareSlotsEvenly) {
  Cluster cluster = some_cluster(4, 1, 4, Placement::spine);
  cluster.slots = 20;
  Question asked = some_question({"passing"}, cluster, 4, Level::folded, one_bucket(4'000'000));
  const double alone = seconds_of(asked);
  // The other one computes nearly all the time: its share of slots stays its own.
  asked.beside = {"idle"};
  asked.beside_jobs = {{.forward_seconds = 100, .buckets = {{.elements = 1, .ready_seconds = 0}}}};
  EXPECT_NEAR(seconds_of(asked) / alone, 2, 0.01);
}

// 1.8: what is a job's own is not shared once more when both are busy.
TEST(Jobs, HaveSlotsAndBusesOfTheirOwn) {
  for (const Level level : {Level::folded, Level::explicit_flows}) {
    Cluster few = some_cluster(4, 1, 4, Placement::spine);
    few.slots = 20;
    Cluster narrow = some_cluster(4, 4, 4, Placement::spine);
    narrow.in_host_gbps = 0.1;
    for (const auto& [cluster, gpus, slower] : {std::tuple{few, 4U, 2.0}, {narrow, 16U, 1.0}}) {
      Question asked = some_question({"passing"}, cluster, gpus, level, one_bucket(4'000'000));
      const double alone = seconds_of(asked);
      asked.beside = {"the same"};
      asked.beside_jobs = {one_bucket(4'000'000)};
      EXPECT_NEAR(seconds_of(asked) / alone, slower, 0.02 * slower);
    }
  }
}

// 2: as many bytes as there can be.
TEST(Bytes, OfAnyNumberAreCounted) {
  const Cluster cluster = some_cluster(4, 1, 4, Placement::spine);
  const auto seconds = [&](std::size_t elements) {
    return seconds_of(some_question({"ps"}, cluster, 4, Level::folded, one_bucket(elements)));
  };
  EXPECT_NEAR(seconds(2'000'000'000'000) / seconds(2'000'000'000), 1000, 1);
}

// 1.9
TEST(Straggler, SlowsEveryoneDown) {
  Cluster cluster = some_cluster(8, 2, 4, Placement::tree);
  cluster.message_us = cluster.in_host_us = cluster.round_trip_us = cluster.level_us = 0;
  cluster.oversubscription = 0.5;
  train::Schedule schedule = one_bucket(4'000'000);
  schedule.forward_seconds = 1;
  for (const Strategy& strategy : all_strategies()) {
    for (const Level level : {Level::folded, Level::explicit_flows}) {
      const auto communication = [&](double compute_factor, double link_factor) {
        Cluster slow = cluster;
        slow.straggler_host = 5;
        slow.compute_factor = compute_factor;
        slow.link_factor = link_factor;
        return seconds_of(some_question(strategy, slow, 16, level, schedule)) - compute_factor;
      };
      const double without = communication(1, 1);
      EXPECT_NEAR(communication(1.5, 1) / without, 1, 1e-6) << strategy.name();
      // To three servers a single slow link matters less than their own; else it is everyone's.
      const double factor = strategy.base == "ps" || strategy.base == "ps_hierarchical" ? 1 : 4;
      if (strategy.base == "halving_doubling") continue;  // its steps within a host are as fast as before
      EXPECT_GE(communication(1, 4) / without, factor * (1 - 1e-6)) << strategy.name();
      EXPECT_LE(communication(1, 4) / without, 4 * (1 + 1e-6)) << strategy.name();
    }
  }
}

TEST(Straggler, LevelsAgree) {
  Cluster cluster = some_cluster(16, 4, 4, Placement::spine);
  cluster.straggler_host = 6;
  cluster.link_factor = 2.5;
  for (const Strategy& strategy : all_strategies()) {
    const double one = seconds_of(some_question(strategy, cluster, 64, Level::folded, one_bucket(4'000'000)));
    const double all =
        seconds_of(some_question(strategy, cluster, 64, Level::explicit_flows, one_bucket(4'000'000)));
    EXPECT_NEAR(one / all, 1, 0.01) << strategy.name();
  }
}

TEST(Straggler, IsRefusedWhereItCannotBeFolded) {
  Cluster cluster = some_cluster(8, 2, 4, Placement::tree);
  cluster.compute_factor = 2;
  Question asked = some_question({"ps"}, cluster, 16, Level::folded, one_bucket(1000));
  EXPECT_EQ(unfit(asked), "");
  asked.beside_jobs = {asked.schedule};
  EXPECT_NE(unfit(asked).find("a straggler beside other jobs cannot be folded"), std::string::npos);
  asked.level = Level::explicit_flows;
  EXPECT_EQ(unfit(asked), "");
}

// 1.6: with that many slots they are no limit, with fewer they are.
TEST(Slots, NeededForFullRate) {
  for (const Strategy& strategy : {Strategy{"passing"}, Strategy{"in_network"}, Strategy{"passing", true}}) {
    Cluster cluster = some_cluster(8, 4, 4, Placement::tree);
    const auto asked = [&] {
      return some_question(strategy, cluster, 32, Level::folded, one_bucket(40'000'000));
    };
    const double best = seconds_of(asked());
    const double needed =
        answer(asked(), scenario_of(asked()).traffic, {.iteration_seconds = 1}).slots_needed;
    cluster.slots = static_cast<unsigned>(needed);
    EXPECT_NEAR(seconds_of(asked()) / best, 1, 1e-6) << strategy.name();
    cluster.slots = static_cast<unsigned>(needed / 2);
    EXPECT_GT(seconds_of(asked()) / best, 1.8) << strategy.name();
  }
}

// 1.5
TEST(Tree, HasAsManyLevelsAsItTakes) {
  const auto levels = [](unsigned hosts, unsigned per_rack, unsigned members, Placement placement) {
    Cluster cluster = some_cluster(hosts, 1, per_rack, placement);
    cluster.members = members;
    return lay_out(cluster, hosts)->levels();
  };
  EXPECT_EQ(levels(8, 8, 8, Placement::tree), 1U);
  EXPECT_EQ(levels(64, 8, 8, Placement::tree), 2U);
  EXPECT_EQ(levels(72, 8, 8, Placement::tree), 3U);
  EXPECT_EQ(levels(8192, 32, 64, Placement::tree), 3U);
  EXPECT_EQ(levels(64, 8, 8, Placement::spine), 2U);
}

TEST(Fit, WhatCannotRunIsSaid) {
  Cluster cluster = some_cluster(8, 4, 4, Placement::none);
  const auto sentence = [&](const Strategy& strategy) { return unfit(strategy, *lay_out(cluster, 32)); };
  EXPECT_EQ(sentence({"ring"}), "");
  EXPECT_EQ(sentence({"passing"}),
            R"(passing needs a switch that sums, and some has none: switch.placement is "none")");
  cluster.servers = 0;
  EXPECT_NE(sentence({"ps"}).find("ps needs parameter servers, and some has none"), std::string::npos);
  cluster.placement = Placement::spine;
  cluster.members = 16;
  EXPECT_EQ(sentence({"passing"}), "");
  EXPECT_NE(
      sentence({"in_network"}).find("in_network would give a switch of some 32 members, and it takes 16"),
      std::string::npos);
}

TEST(Fit, GpusMustBeThere) {
  const Cluster cluster = some_cluster(8, 4, 4, Placement::none);
  EXPECT_EQ(lay_out(cluster, 36).error().message,
            "36 GPUs are more than the 8 hosts of some have, 4 each: 32 at most");
  EXPECT_NE(
      lay_out(cluster, 10).error().message.find("10 GPUs do not fill hosts of some, which has 4 in each"),
      std::string::npos);
  EXPECT_EQ(lay_out(cluster, 3)->hosts, 1U);
  EXPECT_EQ(lay_out(cluster, 3)->gpus, 3U);
}

TEST(Row, FieldsAreConsistent) {
  const Cluster cluster = *read_cluster(shared("clusters/testbed.toml"));
  Case one;
  for (const Strategy& strategy : all_strategies()) {
    const Question asked = some_question(strategy, cluster, 32, Level::explicit_flows, schedule_of("vgg16"));
    const Scenario scenario = scenario_of(asked);
    one.answers.push_back(answer(asked, scenario.traffic, *simulate(scenario)));
  }
  for (const Answer& each : one.answers) {
    const auto json = to_json(one, each);
    const double parts = json["compute_seconds"].get<double>() + json["in_host_seconds"].get<double>() +
                         json["network_seconds"].get<double>() + json["switch_seconds"].get<double>() +
                         json["latency_seconds"].get<double>();
    EXPECT_NEAR(parts, json["iteration_seconds"], 1e-9);
    EXPECT_NEAR(json["compute_seconds"].get<double>() + json["exposed_communication_seconds"].get<double>(),
                json["iteration_seconds"], 1e-9);
    // The hosts of a single rack sum among themselves.
    const bool slots = each.question.strategy.through_switch() && !each.question.strategy.rack;
    EXPECT_EQ(json["slots_needed"].is_null(), !slots) << json.dump();
    EXPECT_LE(json["busiest_link_share"].get<double>(), 1 + 1e-9);
    EXPECT_EQ(json["level"], "explicit");
  }
  const auto ps = to_json(one, one.answers.front());
  EXPECT_EQ(ps["speedup_over_ps"], 1);
  EXPECT_EQ(ps["busiest_link"], "server0 up");
  EXPECT_NE(to_text({one}).find("some on testbed: 553 MB of gradients"), std::string::npos);
}

}  // namespace
}  // namespace passing::simulate
