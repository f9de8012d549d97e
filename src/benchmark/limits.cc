#include "benchmark/limits.h"

#include <algorithm>

#include "net/mtu.h"

namespace passing::benchmark {
namespace {

// A part of what all have, from all and to all: what every way without a switch moves at least.
double twice(double groups) { return 2 * (groups - 1) / groups; }

}  // namespace

bool through_switch(const std::string& strategy) { return strategy == "passing" || strategy == "in_network"; }

Load least_load(const std::string& strategy, const Shape& shape, bool rack) {
  if (shape.hosts == 1 && shape.servers == 0) return {};
  const double hosts = shape.hosts;
  const double ranks = shape.ranks;
  const double racks = shape.racks;
  const double in_rack = hosts / racks;  // at least so many in the largest
  const double servers = std::max(1U, shape.servers);
  Load load;
  if (strategy == "passing" && rack && racks > 1) {
    // Parts to and from the hosts of the rack, and the own one to and from the switch.
    load = {.host = twice(in_rack) + 1 / in_rack, .uplink = 1};
  } else if (strategy == "passing" && rack) {
    load = {.host = twice(hosts)};
  } else if (strategy == "passing") {
    load = {.host = 1, .uplink = in_rack};
  } else if (strategy == "in_network") {
    load = {.host = ranks, .uplink = in_rack * ranks};
  } else if (strategy == "ps") {
    load = {.host = ranks, .uplink = in_rack * ranks, .server = hosts * ranks / servers};
  } else if (strategy == "ps_hierarchical") {
    load = {.host = 1, .uplink = in_rack, .server = hosts / servers};
  } else if (strategy == "ps_sharded") {
    load = {.host = ranks * twice(hosts), .uplink = ranks * in_rack * 2 * (hosts - in_rack) / hosts};
  } else if (strategy == "auto") {
    load = {.host = std::min(1.0, twice(hosts)), .uplink = 1};
  } else {
    // No way without a switch is known to move less; a ring of all ranks moves a little more.
    const double ring = strategy == "ring" || strategy == "openmpi_ring" || strategy == "gloo"
                            ? twice(shape.world())
                            : twice(hosts);
    load = {.host = ring, .uplink = twice(racks)};
    if (strategy == "ring" || strategy == "ring_hierarchical") load.uplink = ring;
  }
  if (shape.racks == 1) load.uplink = 0;
  return load;
}

double header_ceiling(const std::string& strategy, int mtu) {
  if (through_switch(strategy) || strategy == "auto") {
    const double payload = 4.0 * net::elements_for_mtu(mtu);
    return payload / (payload + PASSING_HEADER_BYTES + 8 + 20 + 14);
  }
  // TCP with time stamps. Acknowledgements in the other direction are not counted.
  return (mtu - 52.0) / (mtu + 14.0);
}

double least_seconds(const std::string& strategy, const Shape& shape, bool rack, std::size_t bytes) {
  const Load load = least_load(strategy, shape, rack);
  const double bits = 8 * static_cast<double>(bytes) / header_ceiling(strategy, shape.mtu);
  double seconds = 0;
  if (shape.rate > 0) seconds = std::max(load.host, load.server) * bits / shape.rate;
  if (shape.spine_rate > 0) seconds = std::max(seconds, load.uplink * bits / shape.spine_rate);
  return seconds;
}

}  // namespace passing::benchmark
