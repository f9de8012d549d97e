#include "simulate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace passing::simulate {
namespace {

std::vector<double> errors_of(const std::vector<Comparison>& rows) {
  std::vector<double> errors;
  for (const Comparison& each : rows) {
    if (!each.calibrated_on) errors.push_back(std::abs(each.error()));
  }
  std::ranges::sort(errors);
  return errors;
}

}  // namespace

double Comparison::error() const { return simulated_seconds / measured.seconds - 1; }

std::size_t Comparisons::cases() const { return errors_of(rows).size(); }

double Comparisons::median_error() const {
  const auto errors = errors_of(rows);
  if (errors.empty()) return 0;
  const std::size_t middle = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2;
}

double Comparisons::worst_error() const {
  const auto errors = errors_of(rows);
  return errors.empty() ? 0 : errors.back();
}

Expected<Scenario> scenario_of(const Measured& measured, const Cluster& like) {
  const auto layout = lay_out(cluster_of(measured, like), measured.hosts * measured.ranks);
  if (!layout) return tl::unexpected(layout.error());
  if (const std::string wrong = unfit(measured.strategy, *layout); !wrong.empty())
    return fail(ErrorCode::invalid_argument, wrong);
  const train::Bucket one{.elements = static_cast<std::size_t>(measured.bytes / sizeof(float)),
                          .ready_seconds = 0};
  return Scenario{.traffic = traffic_of(measured.strategy, *layout, Level::explicit_flows, 1),
                  .jobs = {{.buckets = std::vector<train::Bucket>(measured.repeat, one)}},
                  .in_flight = measured.in_flight};
}

Expected<Comparison> compare(const Measured& measured, const Cluster& like, bool calibrated_on) {
  const auto scenario = scenario_of(measured, like);
  if (!scenario) return tl::unexpected(scenario.error());
  const auto timing = simulate(*scenario);
  if (!timing) return tl::unexpected(timing.error());
  return Comparison{.measured = measured,
                    .simulated_seconds = timing->iteration_seconds / measured.repeat,
                    .calibrated_on = calibrated_on};
}

nlohmann::json to_json(const Comparisons& comparisons) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Comparison& each : comparisons.rows) {
    rows.push_back({{"strategy", each.measured.strategy.name()},
                    {"hosts", each.measured.hosts},
                    {"ranks_per_host", each.measured.ranks},
                    {"racks", each.measured.racks},
                    {"rate_bps", each.measured.rate},
                    {"bytes", each.measured.bytes},
                    {"measured_seconds", each.measured.seconds},
                    {"simulated_seconds", each.simulated_seconds},
                    {"error", each.error()},
                    {"calibrated_on", each.calibrated_on}});
  }
  return {{"cases", comparisons.cases()},
          {"median_error", comparisons.median_error()},
          {"worst_error", comparisons.worst_error()},
          {"rows", rows}};
}

std::string to_text(const Comparisons& comparisons) {
  std::string text = fmt::format("{:<42} {:>12} {:>12} {:>9}\n", "case", "lab", "simulated", "error");
  for (const Comparison& each : comparisons.rows) {
    text += fmt::format("{:<42} {:>9.2f} ms {:>9.2f} ms {:>7.1f} %{}\n", each.measured.name(),
                        1e3 * each.measured.seconds, 1e3 * each.simulated_seconds, 100 * each.error(),
                        each.calibrated_on ? "  (calibrated on)" : "");
  }
  text += fmt::format("{} cases beside what it was calibrated on: median error {:.1f} %, worst {:.1f} %\n",
                      comparisons.cases(), 100 * comparisons.median_error(), 100 * comparisons.worst_error());
  return text;
}

}  // namespace passing::simulate
