// A cluster as a file describes it: docs/simulation.md, "Cluster files".
#pragma once

#include <string>

#include "base/error.h"

namespace passing::simulate {

/// Where sums are made in the network.
enum class Placement { none, spine, tree };

/// A value. Rates in Gbit/s each way, times in microseconds, as the file has them.
struct Cluster {
  std::string name;

  unsigned hosts = 1;
  unsigned gpus_per_host = 1;
  double in_host_gbps = 0;
  double nic_gbps = 0;

  unsigned hosts_per_rack = 1;
  double oversubscription = 1;

  Placement placement = Placement::none;
  unsigned slots = 0;
  unsigned members = 0;
  unsigned elements_per_packet = 352;
  unsigned packet_overhead = 78;
  double ingest_gbps = 0;  ///< 0: as fast as its ports

  unsigned servers = 0;
  double server_gbps = 0;

  double message_us = 0;
  double in_host_us = 0;
  double round_trip_us = 0;
  double level_us = 0;

  unsigned payload_bytes = 1448;
  unsigned payload_overhead = 66;
  unsigned in_flight = 8;
  double switch_efficiency = 1;
  double mesh_efficiency = 1;
  double server_efficiency = 1;

  unsigned straggler_host = 0;
  double compute_factor = 1;  ///< of the straggler; 1: there is none
  double link_factor = 1;

  unsigned gpus() const { return hosts * gpus_per_host; }
  bool has_straggler() const { return compute_factor > 1 || link_factor > 1; }
};

/// Errors name the file, the line, the key and what was expected.
Expected<Cluster> read_cluster(const std::string& path);

/// What a file must have, checked again after anything was changed: a sentence, or nothing.
std::string contradiction(const Cluster& cluster);

}  // namespace passing::simulate
