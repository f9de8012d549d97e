#include "simulate/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace passing::simulate {
namespace {

constexpr std::array<const char*, kKinds> kFoldedNames = {"bus",
                                                          "every host up",
                                                          "every host down",
                                                          "every rack up",
                                                          "every rack down",
                                                          "every server up",
                                                          "every server down",
                                                          "switch slots",
                                                          "switch ingest"};
constexpr unsigned kMostTimes = 1 << 20;

// Where all hosts and racks carry the same in every step.
bool even(const Layout& layout) {
  return std::has_single_bit(layout.world()) &&
         (layout.racks == 1 || std::has_single_bit(layout.cluster.hosts_per_rack));
}

// Loads whose ratios are whole numbers move in step, as one flow; others at least begin together.
std::vector<Flow> coupled(const std::vector<std::pair<unsigned, double>>& loads) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [link, tensors] : loads) least = std::min(least, tensors);
  Flow one{.uses = {}, .tensors = least};
  bool whole = true;
  for (const auto& [link, tensors] : loads) {
    const double times = tensors / least;
    whole = whole && std::abs(times - std::round(times)) < 1e-9 * times && times <= kMostTimes;
    if (whole) one.uses.push_back({link, static_cast<unsigned>(std::round(times))});
  }
  if (loads.empty()) return {};
  if (whole) return {one};
  std::vector<Flow> flows;
  flows.reserve(loads.size());
  for (const auto& [link, tensors] : loads) flows.push_back({.uses = {{link, 1}}, .tensors = tensors});
  return flows;
}

/// One host stands for all.
class Folded {
 public:
  Folded(const Strategy& strategy, const Layout& layout, unsigned jobs) {
    for (std::size_t i = 0; i < kKinds; ++i) {
      const auto kind = static_cast<Kind>(i);
      const double rate = rate_of(kind, strategy, layout, jobs);
      if (std::isinf(rate)) continue;
      link_of_[i] = static_cast<int>(links_.size());
      links_.push_back({.name = kFoldedNames[i], .kind = kind, .rate = rate});
    }
  }

  std::vector<Step> steps(const std::vector<LoadStep>& loads) const {
    std::vector<Step> made;
    for (const LoadStep& load : loads) {
      std::vector<std::pair<unsigned, double>> net;
      Step step{.flows = {}, .latency = load.latency};
      for (std::size_t i = 0; i < kKinds; ++i) {
        if (link_of_[i] < 0 || load.tensors[i] <= 0) continue;
        const auto link = static_cast<unsigned>(link_of_[i]);
        if (static_cast<Kind>(i) == Kind::bus) {
          step.flows.push_back({.uses = {{link, 1}}, .tensors = load.tensors[i]});
        } else {
          net.emplace_back(link, load.tensors[i]);
        }
      }
      for (Flow& each : coupled(net)) step.flows.push_back(std::move(each));
      made.push_back(std::move(step));
    }
    return made;
  }
  std::vector<Link> links() const { return links_; }

 private:
  std::vector<Link> links_;
  std::array<int, kKinds> link_of_{-1, -1, -1, -1, -1, -1, -1, -1, -1};
};

/// Every host, rack and server for itself.
class Explicit {
 public:
  Explicit(const Strategy& strategy, const Layout& layout, unsigned jobs)
      : strategy_(strategy), layout_(layout), wire_(wire_factor(strategy, layout.cluster)) {
    Layout healthy = layout;
    healthy.cluster.link_factor = 1;
    const auto add = [&](Kind kind, unsigned count, const char* form) {
      first_[static_cast<std::size_t>(kind)] = static_cast<unsigned>(links_.size());
      for (unsigned i = 0; i < count; ++i) {
        const bool slow =
            (kind == Kind::host_up || kind == Kind::host_down) && i == layout.cluster.straggler_host;
        links_.push_back({.name = fmt::format(fmt::runtime(form), i),
                          .kind = kind,
                          .rate = rate_of(kind, strategy, slow ? layout : healthy, jobs)});
      }
    };
    add(Kind::bus, layout.hosts, "host{} bus");
    add(Kind::host_up, layout.hosts, "host{} up");
    add(Kind::host_down, layout.hosts, "host{} down");
    add(Kind::rack_up, layout.racks, "rack{} up");
    add(Kind::rack_down, layout.racks, "rack{} down");
    add(Kind::server_up, layout.cluster.servers, "server{} up");
    add(Kind::server_down, layout.cluster.servers, "server{} down");
    add(Kind::slots, 1, "switch slots");
    add(Kind::ingest, 1, "switch ingest");
  }

  std::vector<Step> steps(const std::vector<LoadStep>& loads, bool small) const {
    std::vector<Step> made;
    for (unsigned i = 0; i < loads.size(); ++i) {
      Step step{.flows = flows(i, small), .latency = loads[i].latency};
      // Hosts sum alike, and in step.
      if (loads[i][Kind::bus] > 0) {
        Flow sums{.uses = {}, .tensors = loads[i][Kind::bus]};
        for (unsigned host = 0; host < layout_.hosts; ++host) sums.uses.push_back({link(Kind::bus, host), 1});
        step.flows.push_back(std::move(sums));
      }
      made.push_back(std::move(step));
    }
    return made;
  }
  std::vector<Link> links() const { return links_; }

 private:
  unsigned link(Kind kind, unsigned number) const { return first_[static_cast<std::size_t>(kind)] + number; }

  std::vector<Flow> flows(unsigned number, bool small) const {
    const std::string& name = strategy_.base;
    if (name == "halving_doubling") return partners(number, small);
    if (layout_.hosts == 1 && !strategy_.through_servers() && name != "in_network") return {};
    if (name == "ring") return ring(layout_.world());
    if (name == "ring_hierarchical") return ring(layout_.hosts);
    if (name == "ps_sharded") return shards();
    if (strategy_.through_servers()) return servers(name == "ps" ? layout_.gpus : 1);
    if (strategy_.rack) return aggregation_of_racks();
    return {aggregation(name == "in_network" ? layout_.gpus : 1)};
  }

  // Between hosts; through the spine if they are in different racks.
  std::vector<Use> path(unsigned from, unsigned to) const {
    std::vector<Use> uses = {{link(Kind::host_up, from), 1}};
    if (layout_.rack_of(from) != layout_.rack_of(to)) {
      uses.push_back({link(Kind::rack_up, layout_.rack_of(from)), 1});
      uses.push_back({link(Kind::rack_down, layout_.rack_of(to)), 1});
    }
    uses.push_back({link(Kind::host_down, to), 1});
    return uses;
  }

  std::vector<Flow> ring(double members) const {
    std::vector<Flow> flows;
    flows.reserve(layout_.hosts);
    for (unsigned host = 0; host < layout_.hosts; ++host) {
      flows.push_back(
          {.uses = path(host, (host + 1) % layout_.hosts), .tensors = wire_ * 2 * (members - 1) / members});
    }
    return flows;
  }

  std::vector<Flow> partners(unsigned number, bool small) const {
    std::map<std::pair<unsigned, unsigned>, double> between;  // hosts
    halving_messages(layout_.world(), number, small, [&](unsigned from, unsigned to, double tensors) {
      const std::pair hosts{from / layout_.gpus, to / layout_.gpus};
      if (hosts.first != hosts.second) between[hosts] += tensors;
    });
    std::vector<Flow> flows;
    flows.reserve(between.size());
    for (const auto& [hosts, tensors] : between)
      flows.push_back({.uses = path(hosts.first, hosts.second), .tensors = wire_ * tensors});
    return flows;
  }

  // A host and all servers: equal parts to each, pushed and pulled at once.
  std::vector<Flow> servers(double of_host) const {
    const unsigned count = layout_.cluster.servers;
    std::vector<Flow> flows;
    for (unsigned host = 0; host < layout_.hosts; ++host) {
      Flow flow{.uses = {{link(Kind::host_up, host), count}, {link(Kind::host_down, host), count}},
                .tensors = wire_ * of_host / count};
      if (layout_.racks > 1) {
        flow.uses.push_back({link(Kind::rack_up, layout_.rack_of(host)), count});
        flow.uses.push_back({link(Kind::rack_down, layout_.rack_of(host)), count});
      }
      for (unsigned server = 0; server < count; ++server) {
        flow.uses.push_back({link(Kind::server_up, server), 1});
        flow.uses.push_back({link(Kind::server_down, server), 1});
      }
      flows.push_back(std::move(flow));
    }
    return flows;
  }

  // A host and all others: equal parts to each, in step; what it pushes, and the results of its part.
  std::vector<Flow> shards() const {
    const unsigned hosts = layout_.hosts;
    std::vector<Flow> flows;
    for (unsigned host = 0; host < hosts; ++host) {
      const unsigned rack = layout_.rack_of(host);
      Flow flow{.uses = {{link(Kind::host_up, host), hosts - 1}},
                .tensors = wire_ * 2 * layout_.gpus / hosts};
      for (unsigned other = 0; other < hosts; ++other) {
        if (other != host) flow.uses.push_back({link(Kind::host_down, other), 1});
      }
      if (layout_.racks > 1)
        flow.uses.push_back({link(Kind::rack_up, rack), hosts - layout_.rack_size(rack)});
      for (unsigned other = 0; other < layout_.racks; ++other) {
        if (other != rack) flow.uses.push_back({link(Kind::rack_down, other), layout_.rack_size(other)});
      }
      flows.push_back(std::move(flow));
    }
    return flows;
  }

  void through_switch(Flow& flow) const {
    for (const auto& [kind, count] :
         {std::pair{Kind::slots, 1U}, {Kind::ingest, layout_.members(strategy_)}}) {
      if (!std::isinf(links_[link(kind, 0)].rate)) flow.uses.push_back({link(kind, 0), count});
    }
  }

  // No member gets ahead of the others: one flow.
  Flow aggregation(unsigned of_host) const {
    const bool tree = layout_.cluster.placement == Placement::tree;
    Flow flow{.uses = {}, .tensors = wire_};
    for (unsigned host = 0; host < layout_.hosts; ++host) {
      flow.uses.push_back({link(Kind::host_up, host), of_host});
      flow.uses.push_back({link(Kind::host_down, host), of_host});
    }
    for (unsigned rack = 0; layout_.racks > 1 && rack < layout_.racks; ++rack) {
      const unsigned times = tree ? 1 : layout_.rack_size(rack) * of_host;
      flow.uses.push_back({link(Kind::rack_up, rack), times});
      flow.uses.push_back({link(Kind::rack_down, rack), times});
    }
    through_switch(flow);
    return flow;
  }

  // The same in parts: the first hosts of a rack own one each, of as many as the smallest rack has hosts.
  // Host to host and through the switch have different headers, so each link has a flow of its own, and the
  // slowest decides.
  std::vector<Flow> aggregation_of_racks() const {
    const unsigned parts = layout_.fewest();
    const double mesh = mesh_factor(layout_.cluster);
    const bool up = layout_.racks > 1;
    std::vector<Flow> flows;
    const auto over = [&](Kind kind, unsigned number, double tensors) {
      flows.push_back({.uses = {{link(kind, number), 1}}, .tensors = tensors});
    };
    for (unsigned host = 0; host < layout_.hosts; ++host) {
      const unsigned rack = layout_.rack_of(host);
      const bool owner = host - rack * layout_.cluster.hosts_per_rack < parts;
      const double in_rack = owner ? mesh * (parts - 1 + layout_.rack_size(rack) - 1) / parts : mesh;
      const double tensors = in_rack + (owner && up ? wire_ / parts : 0);
      over(Kind::host_up, host, tensors);
      over(Kind::host_down, host, tensors);
    }
    for (unsigned rack = 0; up && rack < layout_.racks; ++rack) {
      over(Kind::rack_up, rack, wire_);
      over(Kind::rack_down, rack, wire_);
    }
    for (const auto& [kind, count] :
         {std::pair{Kind::slots, 1U}, {Kind::ingest, layout_.members(strategy_)}}) {
      if (up && !std::isinf(links_[link(kind, 0)].rate)) over(kind, 0, wire_ * count);
    }
    return flows;
  }

  const Strategy& strategy_;
  const Layout& layout_;
  double wire_;
  std::vector<Link> links_;
  std::array<unsigned, kKinds> first_{};
};

}  // namespace

Traffic traffic_of(const Strategy& strategy, const Layout& layout, Level level, unsigned jobs) {
  const std::vector<LoadStep> loads = loads_of(strategy, layout, false);
  std::vector<LoadStep> small;
  if (strategy.base == "halving_doubling") small = loads_of(strategy, layout, true);
  Traffic made{.overlapping = even(layout)};
  if (level == Level::folded) {
    const Folded folded(strategy, layout, jobs);
    made.links = folded.links();
    made.steps = folded.steps(loads);
    made.small_steps = folded.steps(small);
  } else {
    const Explicit all(strategy, layout, jobs);
    made.links = all.links();
    made.steps = all.steps(loads, false);
    made.small_steps = all.steps(small, true);
  }
  return made;
}

}  // namespace passing::simulate
