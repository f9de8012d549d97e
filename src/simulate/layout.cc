#include "simulate/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace passing::simulate {

const std::vector<Strategy>& all_strategies() {
  static const std::vector<Strategy> all = {
      {"ps"},           {"ps_hierarchical"},   {"ps_sharded"}, {"halving_doubling"},
      {"ring"},         {"ring_hierarchical"}, {"in_network"}, {"passing"},
      {"passing", true}};
  return all;
}

Expected<Strategy> strategy_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Strategy& each : all_strategies()) {
    if (each.name() == name) return each;
    names.push_back(each.name());
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("--strategies: '{}' is none that can be simulated: there are {}; or all", name,
                          fmt::join(names, ", ")));
}

unsigned Layout::rack_size(unsigned rack) const {
  return std::min(cluster.hosts_per_rack, hosts - rack * cluster.hosts_per_rack);
}

unsigned Layout::levels() const {
  if (racks == 1) return 1;
  if (cluster.placement != Placement::tree) return 2;  // racks forward
  unsigned levels = 1;
  for (unsigned switches = racks; switches > 1; switches = (switches + cluster.members - 1) / cluster.members)
    ++levels;
  return levels;
}

double Layout::round_trip() const {
  return 1e-6 * (cluster.round_trip_us + (levels() - 1) * cluster.level_us);
}

unsigned Layout::members(const Strategy& strategy) const {
  const unsigned of_host = strategy.base == "in_network" ? gpus : 1;
  if (strategy.rack) return cluster.placement == Placement::tree ? std::min(racks, cluster.members) : racks;
  if (cluster.placement == Placement::tree)
    return std::max(most() * of_host, std::min(racks, cluster.members));
  return hosts * of_host;
}

Expected<Layout> lay_out(const Cluster& cluster, unsigned gpus) {
  if (const std::string wrong = contradiction(cluster); !wrong.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", cluster.name, wrong));
  if (gpus > cluster.gpus()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} GPUs are more than the {} hosts of {} have, {} each: {} at most", gpus,
                            cluster.hosts, cluster.name, cluster.gpus_per_host, cluster.gpus()));
  }
  if (gpus == 0 || (gpus > cluster.gpus_per_host && gpus % cluster.gpus_per_host != 0)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} GPUs do not fill hosts of {}, which has {} in each: a "
                            "multiple of that is needed, or fewer than one host has",
                            gpus, cluster.name, cluster.gpus_per_host));
  }
  Layout layout{.cluster = cluster, .gpus = std::min(gpus, cluster.gpus_per_host)};
  layout.hosts = gpus / layout.gpus;
  layout.racks = (layout.hosts + cluster.hosts_per_rack - 1) / cluster.hosts_per_rack;
  return layout;
}

std::string unfit(const Strategy& strategy, const Layout& layout) {
  const Cluster& cluster = layout.cluster;
  if (strategy.through_servers() && cluster.servers == 0) {
    return fmt::format("{} needs parameter servers, and {} has none: add [servers] with a count to its file",
                       strategy.name(), cluster.name);
  }
  if (!strategy.through_switch()) return "";
  if (cluster.placement == Placement::none) {
    return fmt::format(R"({} needs a switch that sums, and {} has none: switch.placement is "none")",
                       strategy.name(), cluster.name);
  }
  if (const unsigned members = layout.members(strategy); members > cluster.members) {
    return fmt::format("{} would give a switch of {} {} members, and it takes {}: fewer GPUs{}",
                       strategy.name(), cluster.name, members, cluster.members,
                       cluster.placement == Placement::spine
                           ? ", or a switch in every rack (switch.placement = \"tree\")"
                           : "");
  }
  return "";
}

}  // namespace passing::simulate
