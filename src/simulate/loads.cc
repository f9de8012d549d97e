#include "simulate/loads.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace passing::simulate {
namespace {

// To all others and back, in equal parts: of a ring, or within a host.
double twice(double groups) { return 2 * (groups - 1) / groups; }

void both(LoadStep& step, Kind up, Kind down, double tensors) { step[up] = step[down] = tensors; }

double microseconds(double count) { return 1e-6 * count; }

double in_host_latency(const Layout& layout) {
  return layout.gpus > 1 ? microseconds(2 * layout.cluster.in_host_us) : 0;
}

LoadStep ring(const Layout& layout, double wire, bool of_hosts) {
  const double members = of_hosts ? layout.hosts : layout.world();
  const double load = members > 1 ? twice(members) : 0;
  LoadStep step;
  step[Kind::bus] = layout.gpus == 1 ? 0 : of_hosts ? twice(layout.gpus) : load;
  if (layout.hosts > 1) both(step, Kind::host_up, Kind::host_down, wire * load);
  if (layout.racks > 1) both(step, Kind::rack_up, Kind::rack_down, wire * load);
  const Cluster& cluster = layout.cluster;
  step.latency = microseconds(2.0 * (layout.hosts - 1) * cluster.message_us);
  step.latency += of_hosts ? in_host_latency(layout)
                           : microseconds(2.0 * (layout.world() - layout.hosts) * cluster.in_host_us);
  return step;
}

LoadStep servers(const Layout& layout, double wire, bool of_hosts) {
  const double of_host = of_hosts ? 1 : layout.gpus;
  LoadStep step;
  if (of_hosts) step[Kind::bus] = twice(layout.gpus);
  both(step, Kind::host_up, Kind::host_down, wire * of_host);
  if (layout.racks > 1) both(step, Kind::rack_up, Kind::rack_down, wire * of_host * layout.most());
  both(step, Kind::server_up, Kind::server_down, wire * of_host * layout.hosts / layout.cluster.servers);
  step.latency = microseconds(2 * layout.cluster.message_us) + (of_hosts ? in_host_latency(layout) : 0);
  return step;
}

LoadStep shards(const Layout& layout, double wire) {
  const double hosts = layout.hosts;
  const double gpus = layout.gpus;
  LoadStep step;
  step[Kind::bus] = (gpus - 1) / hosts;
  both(step, Kind::host_up, Kind::host_down, wire * gpus * twice(hosts));
  if (layout.racks > 1) {
    double most = 0;
    for (const double size : {layout.most(), layout.fewest()}) most = std::max(most, size * (hosts - size));
    both(step, Kind::rack_up, Kind::rack_down, wire * 2 * gpus * most / hosts);
  }
  step.latency = layout.hosts > 1 ? microseconds(2 * layout.cluster.message_us) : in_host_latency(layout);
  return step;
}

LoadStep network(const Strategy& strategy, const Layout& layout, double wire) {
  const bool ranks = strategy.base == "in_network";
  const double of_host = ranks ? layout.gpus : 1;
  LoadStep step;
  if (!ranks) {
    step[Kind::bus] = twice(layout.gpus);
    step.latency = in_host_latency(layout);
    if (layout.hosts == 1) return step;
  }
  const bool tree = layout.cluster.placement == Placement::tree;
  both(step, Kind::host_up, Kind::host_down, wire * of_host);
  if (layout.racks > 1)
    both(step, Kind::rack_up, Kind::rack_down, wire * (tree ? 1 : of_host * layout.most()));
  step[Kind::slots] = wire;
  step[Kind::ingest] = wire * layout.members(strategy);
  step.latency += 2 * layout.round_trip();
  return step;
}

// In the rack from host to host, only from there through the switch: packets of two kinds.
LoadStep network_of_racks(const Strategy& strategy, const Layout& layout, double wire) {
  const double mesh = mesh_factor(layout.cluster);
  LoadStep step;
  step[Kind::bus] = twice(layout.gpus);
  step.latency = in_host_latency(layout);
  if (layout.hosts == 1) return step;
  step.latency += microseconds(2 * layout.cluster.message_us);
  const double parts = layout.fewest();
  const double host = (layout.most() - 1 + parts - 1) / parts;
  if (layout.racks == 1) {
    both(step, Kind::host_up, Kind::host_down, mesh * host);
    return step;
  }
  both(step, Kind::host_up, Kind::host_down, mesh * host + wire / parts);
  both(step, Kind::rack_up, Kind::rack_down, wire);
  step[Kind::slots] = wire;
  step[Kind::ingest] = wire * layout.members(strategy);
  step.latency += 2 * layout.round_trip();
  return step;
}

// By counting: ranks beyond a power of two make hosts differ.
LoadStep halving(const Layout& layout, double wire, unsigned number, bool small) {
  std::vector<double> up(layout.hosts);
  std::vector<double> down(layout.hosts);
  std::vector<double> rack_up(layout.racks);
  std::vector<double> rack_down(layout.racks);
  LoadStep step;
  bool leaves = false;
  halving_messages(layout.world(), number, small, [&](unsigned from, unsigned to, double tensors) {
    const unsigned source = from / layout.gpus;
    const unsigned sink = to / layout.gpus;
    if (source == sink) {
      step[Kind::bus] = std::max(step[Kind::bus], tensors);
      return;
    }
    leaves = true;
    up[source] += tensors;
    down[sink] += tensors;
    if (layout.rack_of(source) == layout.rack_of(sink)) return;
    rack_up[layout.rack_of(source)] += tensors;
    rack_down[layout.rack_of(sink)] += tensors;
  });
  const auto most = [&](const std::vector<double>& of) { return wire * *std::ranges::max_element(of); };
  step[Kind::host_up] = most(up);
  step[Kind::host_down] = most(down);
  step[Kind::rack_up] = most(rack_up);
  step[Kind::rack_down] = most(rack_down);
  step.latency = microseconds(leaves ? layout.cluster.message_us : layout.cluster.in_host_us);
  return step;
}

}  // namespace

double mesh_factor(const Cluster& cluster) {
  const double payload = cluster.payload_bytes;
  return (payload + cluster.payload_overhead) / payload / cluster.mesh_efficiency;
}

double wire_factor(const Strategy& strategy, const Cluster& cluster) {
  if (strategy.through_switch()) {
    const double payload = 4.0 * cluster.elements_per_packet;
    return (payload + cluster.packet_overhead) / payload / cluster.switch_efficiency;
  }
  return strategy.through_servers()
             ? mesh_factor(cluster) * cluster.mesh_efficiency / cluster.server_efficiency
             : mesh_factor(cluster);
}

double rate_of(Kind kind, const Strategy& strategy, const Layout& layout, unsigned jobs) {
  const Cluster& cluster = layout.cluster;
  constexpr double kBytes = 1e9 / 8;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  switch (kind) {
    case Kind::bus: return cluster.in_host_gbps * kBytes;
    case Kind::host_up:
    case Kind::host_down:
      return cluster.nic_gbps * kBytes / (layout.has_straggler() ? cluster.link_factor : 1);
    case Kind::rack_up:
    case Kind::rack_down:
      return cluster.hosts_per_rack * cluster.nic_gbps * kBytes / cluster.oversubscription;
    case Kind::server_up:
    case Kind::server_down: return cluster.server_gbps * kBytes;
    case Kind::slots: {
      if (!strategy.through_switch() || layout.round_trip() <= 0) return kNever;
      // In bytes of tensor; flows count what is on the wire.
      const double each = 4.0 * cluster.elements_per_packet * wire_factor(strategy, cluster);
      return std::max(1U, cluster.slots / jobs) * each / layout.round_trip();
    }
    case Kind::ingest: return cluster.ingest_gbps > 0 ? cluster.ingest_gbps * kBytes : kNever;
  }
  return kNever;
}

std::vector<LoadStep> loads_of(const Strategy& strategy, const Layout& layout, bool small) {
  const double wire = wire_factor(strategy, layout.cluster);
  const std::string& name = strategy.base;
  if (name == "ring") return {ring(layout, wire, false)};
  if (name == "ring_hierarchical") return {ring(layout, wire, true)};
  if (name == "ps") return {servers(layout, wire, false)};
  if (name == "ps_hierarchical") return {servers(layout, wire, true)};
  if (name == "ps_sharded") return {shards(layout, wire)};
  if (name == "halving_doubling") {
    std::vector<LoadStep> steps;
    for (unsigned i = 0; i < halving_steps(layout.world(), small); ++i)
      steps.push_back(halving(layout, wire, i, small));
    return steps;
  }
  if (strategy.rack) return {network_of_racks(strategy, layout, wire)};
  return {network(strategy, layout, wire)};
}

unsigned halving_steps(unsigned ranks, bool small) {
  const unsigned cube = std::bit_floor(ranks);
  const unsigned steps = std::bit_width(cube) - 1;
  return (small ? 1 : 2) * steps + (ranks > cube ? 2 : 0);
}

void halving_messages(unsigned ranks, unsigned step, bool small, const Exchange& take) {
  const unsigned cube = std::bit_floor(ranks);
  const unsigned extra = ranks - cube;
  const unsigned steps = std::bit_width(cube) - 1;
  const unsigned last = halving_steps(ranks, small) - 1;
  if (extra > 0 && (step == 0 || step == last)) {
    for (unsigned i = 0; i < extra; ++i) step == 0 ? take(2 * i, 2 * i + 1, 1) : take(2 * i + 1, 2 * i, 1);
    return;
  }
  if (extra > 0) --step;
  const unsigned distance = step < steps ? cube >> (step + 1) : 1U << (step - steps);
  const auto rank_at = [&](unsigned place) { return place < extra ? 2 * place + 1 : place + extra; };
  const double tensors = small ? 1 : static_cast<double>(distance) / cube;
  for (unsigned place = 0; place < cube; ++place) take(rank_at(place), rank_at(place ^ distance), tensors);
}

}  // namespace passing::simulate
