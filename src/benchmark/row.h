// What was measured of one strategy or peer, for one size on one cluster.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "benchmark/limits.h"

namespace passing::benchmark {

/// One launch of all ranks.
struct Sample {
  double seconds = 0;  ///< of one operation, by the slowest rank's clock over all of them
  double latency = 0;  ///< the median of single operations, on the rank where it is longest
  double cpu = 0;      ///< seconds of all processes for one operation, switch and servers included
  double machine_cpu =
      0;  ///< of all processors, whatever they did meanwhile: what a switch in the kernel costs is there
  double program = 0;  ///< of that, the run time of the switch's programs in the kernel, if it was measured
  double busiest = 0;  ///< bytes that the busiest link carried one way for one operation, headers included
  std::string busiest_link;
  double uplink = 0;  ///< the same of the busiest uplink of a rack
};

struct Row {
  std::string strategy;
  bool peer = false;
  bool rack = false;      ///< hosts of a rack sum first
  std::string dataplane;  ///< of the switch; empty: the strategy has none
  Shape shape;
  std::size_t bytes = 0;
  std::size_t repeat = 0;
  std::size_t in_flight = 1;
  std::vector<Sample> samples;
  std::string absent;  ///< why there is nothing to measure
  std::string error;   ///< what went wrong

  bool measured() const { return error.empty() && absent.empty() && !samples.empty(); }
  /// "passing", "passing:rack", "passing@tc": as in ratio_to.
  std::string name() const;
  double seconds() const;  ///< the median of samples
  double latency() const;
  double cpu_per_gb() const;
  double machine_cpu_per_gb() const;
  double program_per_gb() const;
  double busiest() const;
  double line_ratio() const;     ///< bytes / time / rate of a host's link; 0: not shaped
  double ceiling_ratio() const;  ///< that, over what headers leave of the link
  double limit_seconds() const;
  double limit_ratio() const;
  /// Why the links' count cannot be true; empty: it can.
  std::string too_little(const Sample& sample) const;
};

/// All rows for one size on one cluster, side by side.
using Rows = std::vector<Row>;

nlohmann::json to_json(const Row& row, const Rows& beside);
/// A table for people, with a heading.
std::string to_table(const Rows& rows);
/// "16 MB", "1 KB", "250 B".
std::string size_text(std::size_t bytes);

}  // namespace passing::benchmark
