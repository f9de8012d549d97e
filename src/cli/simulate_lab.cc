// Lab and simulation, side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/share.h"
#include "cli/simulate_parts.h"
#include "simulate/validate.h"

extern char** environ;

namespace passing::cli {
namespace {

using simulate::Cluster;
using simulate::Measured;

Expected<void> run_program(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int error = posix_spawn(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
      error != 0) {
    return fail(ErrorCode::unreachable,
                fmt::format("{} cannot be started: {}", command[0], std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(ErrorCode::unreachable, "the measurement in the lab failed: see above");
}

std::string rate_text(double gbps) { return fmt::format("{:.0f}kbit", 1e6 * gbps); }

bool same_case(const Measured& a, const Measured& b) {
  return a.hosts == b.hosts && a.ranks == b.ranks && a.bytes == b.bytes && a.racks == b.racks;
}

// The one that the cluster describes, with the largest tensor; or the last.
const Measured& calibration_case(const std::vector<Measured>& rows, const Cluster& cluster) {
  const Measured* best = &rows.back();
  const auto described = [&](const Measured& each) {
    return each.hosts == cluster.hosts && each.ranks == cluster.gpus_per_host;
  };
  for (const Measured& each : rows) {
    if (described(each) && (!described(*best) || each.bytes > best->bytes)) best = &each;
  }
  return *best;
}

}  // namespace

Expected<std::string> measure_in_lab(const SimulateOptions& options, const Cluster& cluster,
                                     const std::string& directory) {
  const auto strategies = strategies_of(options);
  if (!strategies) return tl::unexpected(strategies.error());
  const unsigned racks = (cluster.hosts + cluster.hosts_per_rack - 1) / cluster.hosts_per_rack;
  std::vector<std::string> names;
  for (const simulate::Strategy& each : *strategies) {
    if (each.through_servers() && cluster.servers == 0) continue;
    if (each.through_switch() && cluster.placement != simulate::Placement::spine)
      continue;  // there is one switch in a lab
    if (each.rack && racks == 1) continue;
    names.push_back(each.name());
  }
  const std::string file = directory + "/bench.json";
  std::vector<std::string> command = {beside_us("passing"),
                                      "bench",
                                      "--hosts",
                                      fmt::format("{}", fmt::join(options.lab_hosts, ",")),
                                      "--ranks",
                                      fmt::format("{}", fmt::join(options.lab_ranks, ",")),
                                      "--sizes",
                                      fmt::format("{}", fmt::join(options.lab_sizes, ",")),
                                      "--rate",
                                      rate_text(cluster.nic_gbps),
                                      "--strategies",
                                      fmt::format("{}", fmt::join(names, ",")),
                                      "--peers",
                                      "none",
                                      "--samples",
                                      std::to_string(options.lab_samples),
                                      "--json",
                                      file};
  if (racks > 1) {
    const double uplink = cluster.hosts_per_rack * cluster.nic_gbps / cluster.oversubscription;
    command.insert(command.end(), {"--racks", std::to_string(racks), "--spine-rate", rate_text(uplink)});
  }
  if (cluster.servers > 0) command.insert(command.end(), {"--servers", std::to_string(cluster.servers)});
  if (auto ended = run_program(command); !ended) return tl::unexpected(ended.error());
  return file;
}

Expected<void> compare_with(const std::string& file, Cluster cluster, bool calibrated, nlohmann::json& json) {
  const auto rows = simulate::read_bench(file);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Measured> used;
  if (!calibrated) {
    const Measured& like = calibration_case(*rows, cluster);
    std::ranges::copy_if(*rows, std::back_inserter(used),
                         [&](const Measured& each) { return same_case(each, like); });
    const auto calibration = simulate::calibrate(used, cluster);
    if (!calibration) return tl::unexpected(calibration.error());
    calibration->apply(cluster);
    json["calibration"] = to_json(*calibration);
    fmt::print("{}\n", to_text(*calibration));
  }
  simulate::Comparisons comparisons;
  for (const Measured& each : *rows) {
    auto made = compare(each, cluster, !used.empty() && same_case(each, used.front()));
    if (!made) return tl::unexpected(made.error());
    comparisons.rows.push_back(std::move(*made));
  }
  if (comparisons.cases() == 0) {
    return fail(
        ErrorCode::invalid_argument,
        "there is no case left to compare: all of them served to calibrate; measure others as well, or give "
        "--calibrate another file");
  }
  fmt::print("{}", to_text(comparisons));
  json["validation"] = to_json(comparisons);
  return {};
}

}  // namespace passing::cli
