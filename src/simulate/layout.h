// The part of a cluster that a job uses, and which strategies can run there.
#pragma once

#include <string>
#include <vector>

#include "simulate/cluster.h"

namespace passing::simulate {

struct Strategy {
  std::string base;   ///< as the library calls it
  bool rack = false;  ///< hosts of a rack sum first

  std::string name() const { return rack ? base + ":rack" : base; }
  bool through_switch() const { return base == "passing" || base == "in_network"; }
  bool through_servers() const { return base == "ps" || base == "ps_hierarchical"; }
};

/// Every one there is, in the order of tables.
const std::vector<Strategy>& all_strategies();
/// Sorts out a name; one sentence if there is none of that name.
Expected<Strategy> strategy_of(const std::string& name);

/// Hosts from the first on, rack by rack. A value.
struct Layout {
  Cluster cluster;
  unsigned hosts = 1;
  unsigned gpus = 1;  ///< of each host
  unsigned racks = 1;

  unsigned world() const { return hosts * gpus; }
  unsigned rack_of(unsigned host) const { return host / cluster.hosts_per_rack; }
  unsigned rack_size(unsigned rack) const;
  /// Of the largest rack, and of the smallest.
  unsigned most() const { return rack_size(0); }
  unsigned fewest() const { return rack_size(racks - 1); }
  /// Levels of switches, as many as it takes: docs/simulation.md 1.5.
  unsigned levels() const;
  /// Seconds from a member to the topmost switch and back.
  double round_trip() const;
  /// Contributors of the busiest switch, or of the only one.
  unsigned members(const Strategy& strategy) const;
  bool has_straggler() const { return cluster.has_straggler() && cluster.straggler_host < hosts; }
};

/// One sentence if there is no room for so many.
Expected<Layout> lay_out(const Cluster& cluster, unsigned gpus);

/// Why the strategy cannot run there: a sentence, or nothing.
std::string unfit(const Strategy& strategy, const Layout& layout);

}  // namespace passing::simulate
