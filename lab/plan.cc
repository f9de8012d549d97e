#include "plan.h"

#include <fmt/format.h>

#include <cstdlib>

namespace passing::lab {

double bits_per_second(const std::string& rate) {
  if (rate == "none") return 0;
  char* unit = nullptr;
  const double number = std::strtod(rate.c_str(), &unit);
  switch (*unit) {
    case 'k': return number * 1e3;
    case 'm': return number * 1e6;
    case 'g': return number * 1e9;
    case 't': return number * 1e12;
    default: return number;
  }
}

const char* to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::host: return "host";
    case LinkKind::server: return "server";
    case LinkKind::rack: break;
  }
  return "rack";
}

std::string Map::rack_namespace(unsigned rack) const {
  return plan_.racks > 1 ? fmt::format("{}t{}", prefix_, rack) : switch_namespace();
}

std::vector<std::string> Map::namespaces() const {
  std::vector<std::string> names = {switch_namespace()};
  for (unsigned rack = 0; plan_.racks > 1 && rack < plan_.racks; ++rack)
    names.push_back(rack_namespace(rack));
  for (unsigned host = 0; host < machines(); ++host) names.push_back(host_namespace(host));
  return names;
}

std::string Map::host_name(unsigned host) const {
  return host < plan_.hosts ? fmt::format("host{}", host) : fmt::format("server{}", host - plan_.hosts);
}

std::string Map::find(const std::string& place) const {
  if (place == "switch" || place == "spine") return switch_namespace();
  for (unsigned host = 0; host < machines(); ++host) {
    if (place == host_name(host)) return host_namespace(host);
  }
  for (unsigned rack = 0; rack < plan_.racks; ++rack) {
    if (place == fmt::format("tor{}", rack)) return rack_namespace(rack);
  }
  return "";
}

std::vector<Wire> Map::wires() const {
  std::vector<Wire> wires;
  for (unsigned host = 0; host < machines(); ++host) {
    const bool ranks = host < plan_.hosts;
    // Servers serve all racks alike: they hang on the spine.
    const std::string above = ranks ? rack_namespace(plan_.rack_of(host)) : switch_namespace();
    wires.push_back({.name = host_name(host),
                     .kind = ranks ? LinkKind::host : LinkKind::server,
                     .index = host,
                     .lower = {host_namespace(host), "eth0"},
                     .upper = {above, fmt::format("port{}", host)},
                     .down = {},
                     .rate = plan_.rate});
  }
  for (unsigned rack = 0; plan_.racks > 1 && rack < plan_.racks; ++rack) {
    wires.push_back({.name = fmt::format("rack{}", rack),
                     .kind = LinkKind::rack,
                     .index = rack,
                     .lower = {rack_namespace(rack), "uplink"},
                     .upper = {switch_namespace(), fmt::format("rack{}", rack)},
                     .down = {},
                     .rate = plan_.uplink_rate()});
  }
  for (Wire& wire : wires) {
    const bool past_queue = plan_.dataplane == "xdp" && wire.upper.where == switch_namespace();
    wire.down = past_queue ? End{wire.lower.where, "arrivals"} : wire.upper;
  }
  return wires;
}

std::vector<std::string> Map::switch_ports() const {
  std::vector<std::string> ports;
  for (const Wire& wire : wires()) {
    if (wire.upper.where == switch_namespace()) ports.push_back(wire.upper.device);
  }
  return ports;
}

}  // namespace passing::lab
