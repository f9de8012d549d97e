#include "benchmark/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace passing::benchmark {
namespace {

template <class Of>
double median(const std::vector<Sample>& samples, Of of) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& each : samples) values.push_back(of(each));
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double tensors(const Row& row, double bytes) { return bytes / static_cast<double>(row.bytes); }

// Samples of one round were taken one after the other: their ratio is what the machine's moods leave alone.
double ratio(const Row& row, const Row& other) {
  std::vector<Sample> ratios;
  for (std::size_t i = 0; i < std::min(row.samples.size(), other.samples.size()); ++i)
    ratios.push_back({.seconds = other.samples[i].seconds / row.samples[i].seconds, .busiest_link = {}});
  return median(ratios, [](const Sample& each) { return each.seconds; });
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string share_text(double value) { return value > 0 ? fmt::format("{:.3f}", value) : "-"; }

}  // namespace

std::string size_text(std::size_t bytes) {
  for (const auto& [unit, name] : {std::pair{1'000'000'000UL, "GB"}, {1'000'000UL, "MB"}, {1000UL, "KB"}}) {
    if (bytes >= unit)
      return fmt::format("{:g} {}", static_cast<double>(bytes) / static_cast<double>(unit), name);
  }
  return fmt::format("{} B", bytes);
}

double Row::seconds() const {
  return median(samples, [](const Sample& each) { return each.seconds; });
}
double Row::latency() const {
  return median(samples, [](const Sample& each) { return each.latency; });
}
double Row::cpu_per_gb() const {
  return median(samples, [](const Sample& each) { return each.cpu; }) * 1e9 / static_cast<double>(bytes);
}
std::string Row::name() const {
  const std::string where = dataplane.empty() || dataplane == "userspace" ? "" : "@" + dataplane;
  return strategy + (rack ? ":rack" : "") + where;
}
double Row::machine_cpu_per_gb() const {
  return median(samples, [](const Sample& each) { return each.machine_cpu; }) * 1e9 /
         static_cast<double>(bytes);
}
double Row::program_per_gb() const {
  return median(samples, [](const Sample& each) { return each.program; }) * 1e9 / static_cast<double>(bytes);
}
double Row::busiest() const {
  return median(samples, [](const Sample& each) { return each.busiest; });
}
double Row::line_ratio() const {
  return shape.rate > 0 && measured() ? 8 * static_cast<double>(bytes) / seconds() / shape.rate : 0;
}
double Row::ceiling_ratio() const { return line_ratio() / header_ceiling(strategy, shape.mtu); }
double Row::limit_seconds() const { return least_seconds(strategy, shape, rack, bytes); }
double Row::limit_ratio() const { return measured() ? limit_seconds() / seconds() : 0; }

std::string Row::too_little(const Sample& sample) const {
  const Load load = least_load(strategy, shape, rack);
  const double least = std::max({load.host, load.uplink, load.server}) * static_cast<double>(bytes);
  if (sample.busiest >= least) return "";
  return fmt::format(
      "the busiest link carried {:.0f} bytes for an operation, where {} needs {:.0f}: it did something else",
      sample.busiest, name(), least);
}

nlohmann::json to_json(const Row& row, const Rows& beside) {
  const Load load = least_load(row.strategy, row.shape, row.rack);
  nlohmann::json json = {{"strategy", row.strategy},
                         {"peer", row.peer},
                         {"hosts", row.shape.hosts},
                         {"ranks_per_host", row.shape.ranks},
                         {"racks", row.shape.racks},
                         {"servers", row.shape.servers},
                         {"local_domain", row.rack ? "rack" : "host"},
                         {"dataplane", row.dataplane},
                         {"rate_bps", row.shape.rate},
                         {"spine_rate_bps", row.shape.spine_rate},
                         {"mtu", row.shape.mtu},
                         {"bytes", row.bytes},
                         {"repeat", row.repeat},
                         {"in_flight", row.in_flight},
                         {"samples", row.samples.size()},
                         {"verified", row.measured()}};
  if (!row.error.empty()) json["error"] = row.error;
  if (!row.measured()) return json;
  const auto [fastest, slowest] =
      std::minmax_element(row.samples.begin(), row.samples.end(),
                          [](const Sample& a, const Sample& b) { return a.seconds < b.seconds; });
  json.update({{"median_seconds", row.seconds()},
               {"min_seconds", fastest->seconds},
               {"max_seconds", slowest->seconds},
               {"latency_seconds", row.latency()},
               {"algorithm_bandwidth", static_cast<double>(row.bytes) / row.seconds()},
               {"line_ratio", row.line_ratio()},
               {"ceiling_ratio", row.ceiling_ratio()},
               {"limit_seconds", row.limit_seconds()},
               {"limit_ratio", row.limit_ratio()},
               {"cpu_seconds_per_gb", row.cpu_per_gb()},
               {"machine_cpu_seconds_per_gb", row.machine_cpu_per_gb()},
               {"program_seconds_per_gb", row.program_per_gb()},
               {"busiest_link_bytes", row.busiest()},
               {"busiest_link", row.samples.front().busiest_link},
               {"uplink_bytes", median(row.samples, [](const Sample& each) { return each.uplink; })},
               {"least_link_bytes",
                std::max({load.host, load.uplink, load.server}) * static_cast<double>(row.bytes)}});
  json["ratio_to"] = nlohmann::json::object();
  for (const Row& other : beside) {
    if (other.measured() && other.name() != row.name()) json["ratio_to"][other.name()] = ratio(row, other);
  }
  return json;
}

std::string to_table(const Rows& rows) {
  const Shape& shape = rows.front().shape;
  const auto rate_text = [](double rate) {
    return rate == 0 ? std::string("not shaped") : fmt::format("{:g} Mbit/s", rate / 1e6);
  };
  std::string text =
      fmt::format("{}, {} hosts x {}", size_text(rows.front().bytes), shape.hosts, shape.ranks);
  if (shape.racks > 1) text += fmt::format(" in {} racks", shape.racks);
  text += fmt::format(", links {}", rate_text(shape.rate));
  if (shape.racks > 1) text += fmt::format(", uplinks {}", rate_text(shape.spine_rate));
  text += fmt::format(", MTU {}\n", shape.mtu);
  text += fmt::format("{:<18} {:>11} {:>9} {:>7} {:>8} {:>7} {:>8} {:>9}", "", "time", "Gbit/s", "of line",
                      "of ceil.", "of lim.", "CPU s/GB", "busiest");
  // What a switch in the kernel costs is nobody's CPU time.
  const bool machine = std::any_of(rows.begin(), rows.end(),
                                   [](const Row& row) { return row.name().find('@') != std::string::npos; });
  if (machine) text += fmt::format(" {:>9} {:>10}", "mach s/GB", "latency");
  std::vector<const Row*> peers;
  for (const Row& each : rows) {
    if (each.peer && each.measured()) peers.push_back(&each);
  }
  for (const Row* each : peers) text += fmt::format(" {:>12}", "x " + each->name());
  text += "\n";
  for (const Row& row : rows) {
    if (!row.measured()) {
      text += fmt::format("{:<18} {}\n", row.name(),
                          row.absent.empty() ? "failed: " + row.error : "absent: " + row.absent);
      continue;
    }
    text += fmt::format("{:<18} {:>11} {:>9.3f} {:>7} {:>8} {:>7} {:>8.2f} {:>9}", row.name(),
                        time_text(row.seconds()), 8e-9 * static_cast<double>(row.bytes) / row.seconds(),
                        share_text(row.line_ratio()), share_text(row.ceiling_ratio()),
                        share_text(row.limit_ratio()), row.cpu_per_gb(),
                        shape.hosts > 1 ? fmt::format("{:.3f} M", tensors(row, row.busiest())) : "-");
    if (machine) text += fmt::format(" {:>9.2f} {:>10}", row.machine_cpu_per_gb(), time_text(row.latency()));
    for (const Row* each : peers) text += fmt::format(" {:>12.2f}", ratio(row, *each));
    text += "\n";
  }
  return text;
}

}  // namespace passing::benchmark
