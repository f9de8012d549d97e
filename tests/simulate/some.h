// Clusters for tests.
#pragma once

#include "simulate/predict.h"

namespace passing::simulate {

/// Every number is another, so that none can stand in for another.
inline Cluster some_cluster(unsigned hosts, unsigned gpus, unsigned hosts_per_rack, Placement placement) {
  return {.name = "some",
          .hosts = hosts,
          .gpus_per_host = gpus,
          .in_host_gbps = 900,
          .nic_gbps = 40,
          .hosts_per_rack = hosts_per_rack,
          .oversubscription = 3,
          .placement = placement,
          .slots = 100'000,
          .members = 1024,
          .elements_per_packet = 352,
          .packet_overhead = 78,
          .servers = 3,
          .server_gbps = 70,
          .message_us = 31,
          .in_host_us = 7,
          .round_trip_us = 17,
          .level_us = 5,
          .switch_efficiency = 0.97,
          .mesh_efficiency = 0.93,
          .server_efficiency = 0.9};
}

inline train::Schedule one_bucket(std::size_t elements) {
  return {.buckets = {{.elements = elements, .ready_seconds = 0}}};
}

inline Question some_question(const Strategy& strategy, const Cluster& cluster, unsigned gpus, Level level,
                              const train::Schedule& schedule) {
  return {.strategy = strategy,
          .layout = *lay_out(cluster, gpus),
          .model = "some",
          .schedule = schedule,
          .beside = {},
          .beside_jobs = {},
          .level = level};
}

inline double seconds_of(const Question& question) {
  return simulate(scenario_of(question)).value().iteration_seconds;
}

}  // namespace passing::simulate
