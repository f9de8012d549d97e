#include "simulate/cluster_keys.h"

#include <fmt/format.h>

#include "wire/wire.h"

namespace passing::simulate {
namespace {

constexpr bool kRequired = true;
constexpr double kMany = 1e6;
constexpr double kSlowest = 1e-3;  // Gbit/s

Key whole(const char* table, const char* name, unsigned Cluster::*where, double least, double most,
          bool required = false) {
  return {.table = table, .name = name, .whole = where, .least = least, .most = most, .required = required};
}

Key real(const char* table, const char* name, double Cluster::*where, double least, double most,
         bool required = false) {
  return {.table = table, .name = name, .real = where, .least = least, .most = most, .required = required};
}

}  // namespace

std::string Key::expected() const {
  return fmt::format("{} from {:.10g} to {:.10g}", whole != nullptr ? "a whole number" : "a number", least,
                     most);
}

const std::vector<Key>& cluster_keys() {
  static const std::vector<Key> all = {
      whole("hosts", "count", &Cluster::hosts, 1, kMany, kRequired),
      whole("hosts", "gpus_per_host", &Cluster::gpus_per_host, 1, 64, kRequired),
      real("hosts", "in_host_gbps", &Cluster::in_host_gbps, kSlowest, kMany, kRequired),
      real("hosts", "nic_gbps", &Cluster::nic_gbps, kSlowest, kMany, kRequired),
      whole("racks", "hosts_per_rack", &Cluster::hosts_per_rack, 1, kMany, kRequired),
      real("racks", "oversubscription", &Cluster::oversubscription, 0.01, 1000, kRequired),
      whole("switch", "slots", &Cluster::slots, 1, 1e9),
      whole("switch", "members", &Cluster::members, 2, 65536),
      whole("switch", "elements_per_packet", &Cluster::elements_per_packet, 1, PASSING_BLOCK_ELEMENTS),
      whole("switch", "overhead_bytes", &Cluster::packet_overhead, 0, 10000),
      real("switch", "ingest_gbps", &Cluster::ingest_gbps, kSlowest, 1e9),
      whole("servers", "count", &Cluster::servers, 1, 65536),
      real("servers", "nic_gbps", &Cluster::server_gbps, kSlowest, kMany),
      real("latency", "message_us", &Cluster::message_us, 0, kMany, kRequired),
      real("latency", "in_host_us", &Cluster::in_host_us, 0, kMany, kRequired),
      real("latency", "round_trip_us", &Cluster::round_trip_us, 0, kMany),
      real("latency", "level_us", &Cluster::level_us, 0, kMany),
      whole("transport", "payload_bytes", &Cluster::payload_bytes, 1, 65536),
      whole("transport", "overhead_bytes", &Cluster::payload_overhead, 0, 10000),
      whole("transport", "in_flight", &Cluster::in_flight, 1, 1024),
      real("transport", "switch_efficiency", &Cluster::switch_efficiency, 0.01, 1),
      real("transport", "mesh_efficiency", &Cluster::mesh_efficiency, 0.01, 1),
      real("transport", "server_efficiency", &Cluster::server_efficiency, 0.01, 1),
      whole("straggler", "host", &Cluster::straggler_host, 0, kMany),
      real("straggler", "compute_factor", &Cluster::compute_factor, 1, 1000),
      real("straggler", "link_factor", &Cluster::link_factor, 1, 1000),
  };
  return all;
}

}  // namespace passing::simulate
