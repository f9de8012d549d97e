#include "simulate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "net/mtu.h"
#include "simulate/loads.h"

namespace passing::simulate {
namespace {

using nlohmann::json;

tl::unexpected<Error> refuse(const std::string& path, const std::string& what) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} {}: `passing bench --json FILE` writes one", path, what));
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// The parts of an all-reduce's time.
struct Parts {
  double bytes = 0;    ///< seconds that links need
  double between = 0;  ///< latency that nothing can overlap with
  double last = 0;     ///< latency that the next operation can
  bool bus = false;    ///< some step is limited by the host
};

Parts parts_of(const Strategy& strategy, const Layout& layout, double bytes) {
  Parts parts;
  const auto steps = loads_of(strategy, layout, bytes <= kWholeBytes);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    double most = 0;
    for (std::size_t i = 0; i < kKinds; ++i) {
      const auto kind = static_cast<Kind>(i);
      const double seconds = steps[s].tensors[i] * bytes / rate_of(kind, strategy, layout, 1);
      if (seconds > most && kind == Kind::bus && layout.hosts > 1 && strategy.base != "halving_doubling")
        parts.bus = true;
      if (seconds > most && kind != Kind::bus) parts.bus = false;
      most = std::max(most, seconds);
    }
    parts.bytes += most;
    (s + 1 < steps.size() ? parts.between : parts.last) += steps[s].latency;
  }
  return parts;
}

double& efficiency_of(Calibration& calibration, const Strategy& strategy) {
  return strategy.through_switch()    ? calibration.switch_efficiency
         : strategy.through_servers() ? calibration.server_efficiency
                                      : calibration.mesh_efficiency;
}

// Of the large ones, which are bound by bytes: what links would need, over what was needed.
void find_efficiencies(const std::vector<Measured>& measured, const Cluster& like, Calibration& found) {
  for (const char* family : {"passing", "ring", "ps"}) {
    double& efficiency = efficiency_of(found, {family});
    std::vector<const Measured*> rows;
    double largest = 0;
    for (const Measured& each : measured) {
      if (&efficiency_of(found, each.strategy) != &efficiency) continue;
      rows.push_back(&each);
      largest = std::max(largest, each.bytes);
    }
    std::vector<double> seen;
    for (const Measured* each : rows) {
      const auto layout = lay_out(cluster_of(*each, like), each->hosts * each->ranks);
      if (!layout || each->bytes < largest / 4) continue;
      // Its steps overlap there with those of other operations.
      if (each->strategy.base == "halving_doubling" && each->racks > 1) continue;
      const Parts parts = parts_of(each->strategy, *layout, each->bytes);
      const double latency = parts.between + (each->in_flight == 1 ? parts.last : 0);
      if (parts.bytes == 0 || parts.bus || latency > 0.2 * each->seconds) continue;
      seen.push_back(std::clamp(parts.bytes / (each->seconds - latency), 0.01, 1.0));
    }
    if (!seen.empty()) efficiency = median(seen);
  }
}

// Who was not measured is taken for as good as the others: all use the same hosts and links.
void borrow_efficiencies(Calibration& found) {
  std::vector<double> known;
  for (const double each : {found.switch_efficiency, found.mesh_efficiency, found.server_efficiency}) {
    if (each > 0) known.push_back(each);
  }
  if (known.empty()) return;
  for (double* each : {&found.switch_efficiency, &found.mesh_efficiency, &found.server_efficiency}) {
    if (*each == 0) *each = median(known);
  }
}

// From those that wait for every operation: what is left when bytes are taken off.
void find_latencies(const std::vector<Measured>& measured, const Cluster& like, Calibration& found) {
  std::vector<double> message;
  std::vector<double> round_trip;
  for (const Measured& each : measured) {
    Cluster cluster = cluster_of(each, like);
    found.apply(cluster);
    cluster.message_us = 0;
    cluster.round_trip_us = 0;
    cluster.level_us = 0;
    const auto without = lay_out(cluster, each.hosts * each.ranks);
    if (each.in_flight != 1 || !without) continue;
    const Parts parts = parts_of(each.strategy, *without, each.bytes);
    const double rest = each.seconds - parts.bytes - parts.between - parts.last;
    if (rest < 0.2 * each.seconds) continue;  // mostly bytes: it tells little of latency
    Layout with = *without;
    (each.strategy.through_switch() ? with.cluster.round_trip_us : with.cluster.message_us) = 1;
    const Parts unit = parts_of(each.strategy, with, each.bytes);
    const double count = 1e6 * (unit.between + unit.last - parts.between - parts.last);
    if (count > 0.5) (each.strategy.through_switch() ? round_trip : message).push_back(1e6 * rest / count);
  }
  if (!message.empty()) found.message_us = median(message);
  if (!round_trip.empty()) found.round_trip_us = median(round_trip);
}

}  // namespace

std::string Measured::name() const {
  return fmt::format("{} {} x {}{}, {:g} MB", strategy.name(), hosts, ranks,
                     racks > 1 ? fmt::format(" in {} racks", racks) : "", 1e-6 * bytes);
}

Expected<std::vector<Measured>> read_bench(const std::string& path) {
  std::ifstream file(path);
  if (!file) return refuse(path, fmt::format("cannot be read ({})", std::strerror(errno)));
  if (std::filesystem::is_directory(path)) return refuse(path, "is a directory");
  const json content = json::parse(file, nullptr, false);
  if (!content.is_object() || content.value("format", json()) != "passing-bench" ||
      !content.value("results", json()).is_array())
    return refuse(path, "is not a file of results of a benchmark");
  std::vector<Measured> rows;
  std::string dataplane;  // the first there is: a cluster has one kind of switch
  for (const json& row : content["results"]) {
    const auto number = [&](const char* field) {
      return row.contains(field) && row[field].is_number() ? row[field].get<double>() : 0;
    };
    const auto count = [&](const char* field) { return static_cast<unsigned>(std::max(1.0, number(field))); };
    if (!row.is_object() || !row.value("strategy", json()).is_string()) continue;
    const bool rack = row.value("local_domain", json()) == "rack";
    const auto strategy = strategy_of(row["strategy"].get<std::string>() + (rack ? ":rack" : ""));
    if (!strategy || number("median_seconds") <= 0 || number("rate_bps") <= 0 || number("bytes") <= 0)
      continue;
    if (number("hosts") < 2) continue;  // nothing goes over links
    const json through = row.value("dataplane", json());
    if (through.is_string() && !through.get_ref<const std::string&>().empty()) {
      if (dataplane.empty()) dataplane = through.get<std::string>();
      if (through != dataplane) continue;
    }
    rows.push_back({.strategy = *strategy,
                    .hosts = count("hosts"),
                    .ranks = count("ranks_per_host"),
                    .racks = count("racks"),
                    .servers = static_cast<unsigned>(number("servers")),
                    .rate = number("rate_bps"),
                    .spine_rate = number("spine_rate_bps"),
                    .mtu = number("mtu") > 0 ? static_cast<int>(number("mtu")) : 1500,
                    .bytes = number("bytes"),
                    .repeat = count("repeat"),
                    .in_flight = count("in_flight"),
                    .seconds = number("median_seconds")});
  }
  if (rows.empty()) return refuse(path, "has no result of a strategy on several hosts with shaped links");
  return rows;
}

Cluster cluster_of(const Measured& measured, const Cluster& like) {
  Cluster cluster = like;
  cluster.hosts = measured.hosts;
  cluster.gpus_per_host = measured.ranks;
  cluster.hosts_per_rack = (measured.hosts + measured.racks - 1) / measured.racks;
  cluster.nic_gbps = 1e-9 * measured.rate;
  cluster.server_gbps = cluster.nic_gbps;
  cluster.servers = measured.servers;
  cluster.oversubscription = measured.racks > 1 && measured.spine_rate > 0
                                 ? cluster.hosts_per_rack * measured.rate / measured.spine_rate
                                 : 1;
  cluster.elements_per_packet = net::elements_for_mtu(measured.mtu);
  cluster.payload_bytes = static_cast<unsigned>(measured.mtu - 52);
  cluster.in_flight = measured.in_flight;
  return cluster;
}

double steady_seconds(const Strategy& strategy, const Layout& layout, double bytes, unsigned in_flight) {
  const Parts parts = parts_of(strategy, layout, bytes);
  const double serial = parts.bytes + parts.between;
  return std::max(serial, (serial + parts.last) / in_flight);
}

void Calibration::apply(Cluster& cluster) const {
  if (switch_efficiency > 0) cluster.switch_efficiency = switch_efficiency;
  if (mesh_efficiency > 0) cluster.mesh_efficiency = mesh_efficiency;
  if (server_efficiency > 0) cluster.server_efficiency = server_efficiency;
  if (message_us >= 0) cluster.message_us = message_us;
  if (round_trip_us >= 0) cluster.round_trip_us = round_trip_us;
}

Expected<Calibration> calibrate(const std::vector<Measured>& measured, const Cluster& like) {
  Calibration found;
  Cluster ideal = like;
  ideal.switch_efficiency = ideal.mesh_efficiency = ideal.server_efficiency = 1;
  find_efficiencies(measured, ideal, found);
  find_latencies(measured, ideal, found);
  // What latency was taken for may have been bytes, and the other way round.
  if (found.message_us >= 0 || found.round_trip_us >= 0) {
    Cluster again = ideal;
    Calibration latencies = found;
    latencies.switch_efficiency = latencies.mesh_efficiency = latencies.server_efficiency = 0;
    latencies.apply(again);
    find_efficiencies(measured, again, found);
  }
  if (found.switch_efficiency + found.mesh_efficiency + found.server_efficiency == 0 &&
      found.message_us < 0 && found.round_trip_us < 0) {
    return fail(ErrorCode::invalid_argument,
                "--calibrate: nothing in it tells of links: measure 1 MB or more on several hosts");
  }
  borrow_efficiencies(found);
  return found;
}

nlohmann::json to_json(const Calibration& calibration) {
  json made = json::object();
  const auto put = [&](const char* name, double value, bool known) {
    made[name] = known ? json(value) : json();
  };
  put("switch_efficiency", calibration.switch_efficiency, calibration.switch_efficiency > 0);
  put("mesh_efficiency", calibration.mesh_efficiency, calibration.mesh_efficiency > 0);
  put("server_efficiency", calibration.server_efficiency, calibration.server_efficiency > 0);
  put("message_us", calibration.message_us, calibration.message_us >= 0);
  put("round_trip_us", calibration.round_trip_us, calibration.round_trip_us >= 0);
  return made;
}

std::string to_text(const Calibration& calibration) {
  std::string text = "Calibrated, as a cluster file has it:\n";
  const json all = to_json(calibration);
  for (const auto& [table, names] :
       {std::pair{"[transport]", std::vector{"switch_efficiency", "mesh_efficiency", "server_efficiency"}},
        {"[latency]", std::vector{"message_us", "round_trip_us"}}}) {
    std::string lines;
    for (const char* name : names) {
      if (!all[name].is_null()) lines += fmt::format("{} = {:.4g}\n", name, all[name].get<double>());
    }
    if (!lines.empty()) text += fmt::format("{}\n{}", table, lines);
  }
  return text;
}

}  // namespace passing::simulate
