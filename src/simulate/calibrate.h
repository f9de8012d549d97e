// What a benchmark tells of a cluster: docs/simulation.md, section 5.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "simulate/layout.h"

namespace passing::simulate {

/// One row of `passing bench`: an all-reduce, as it was measured on shaped links.
struct Measured {
  Strategy strategy;
  unsigned hosts = 1;
  unsigned ranks = 1;  ///< per host
  unsigned racks = 1;
  unsigned servers = 0;
  double rate = 0;        ///< bit/s
  double spine_rate = 0;  ///< the same; 0: one rack
  int mtu = 1500;
  double bytes = 0;
  unsigned repeat = 1;
  unsigned in_flight = 1;
  double seconds = 0;

  std::string name() const;
};

/// Those of a file that can be compared: ours, that ended well, on shaped links.
Expected<std::vector<Measured>> read_bench(const std::string& path);

/// The cluster in which it was measured; what a benchmark does not say is as in `like`.
Cluster cluster_of(const Measured& measured, const Cluster& like);

/// Seconds of one of many all-reduces in a row, in closed form: docs/simulation.md, section 3.
double steady_seconds(const Strategy& strategy, const Layout& layout, double bytes, unsigned in_flight);

struct Calibration {
  double switch_efficiency = 0;  ///< 0: nothing was measured that tells
  double mesh_efficiency = 0;
  double server_efficiency = 0;
  double message_us = -1;  ///< below 0: the same
  double round_trip_us = -1;

  void apply(Cluster& cluster) const;
};

Expected<Calibration> calibrate(const std::vector<Measured>& measured, const Cluster& like);
nlohmann::json to_json(const Calibration& calibration);
std::string to_text(const Calibration& calibration);

}  // namespace passing::simulate
