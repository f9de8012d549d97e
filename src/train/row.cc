#include "train/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace passing::train {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

template <class Of>
double median_of(const std::vector<Round>& rounds, Of of) {
  std::vector<double> values(rounds.size());
  std::ranges::transform(rounds, values.begin(), of);
  return median(std::move(values));
}

const Row* find(const Table& table, const std::string& strategy) {
  const auto found =
      std::ranges::find_if(table.rows, [&](const Row& each) { return each.strategy == strategy; });
  return found == table.rows.end() || found->rounds.empty() ? nullptr : &*found;
}

// The round whose time is nearest to the median: what a chart shows.
const Round& typical(const Row& row) {
  const double middle = row.step_seconds();
  return *std::ranges::min_element(row.rounds, {},
                                   [&](const Round& each) { return std::abs(each.step_seconds - middle); });
}

std::string milliseconds(double seconds) { return fmt::format("{:.1f} ms", 1e3 * seconds); }

std::string rate_text(double bits) {
  if (bits == 0) return "not shaped";
  return bits >= 1e9 ? fmt::format("{:g} Gbit/s", bits / 1e9) : fmt::format("{:g} Mbit/s", bits / 1e6);
}

std::string heading(const Case& about) {
  const benchmark::Shape& shape = about.shape;
  std::string text =
      fmt::format("{}, {}: {:.3g} MB of gradients, batch {}, {} steps; {} hosts x {}, links {}", about.model,
                  about.mode, 1e-6 * static_cast<double>(about.bytes), about.batch, about.steps, shape.hosts,
                  shape.ranks, rate_text(shape.rate));
  if (about.equivalent > 0)
    text += fmt::format(", standing for {} GPUs at {}", about.gpu, rate_text(about.equivalent));
  if (shape.servers > 1) text += fmt::format(", {} servers", shape.servers);
  return text;
}

}  // namespace

double Row::step_seconds() const { return median_of(rounds, &Round::step_seconds); }
double Row::busiest() const { return median_of(rounds, &Round::busiest); }

double Table::compute_seconds() const {
  std::vector<double> values;
  for (const Row& row : rows) {
    for (const Round& each : row.rounds) values.push_back(each.compute_seconds);
  }
  return median(std::move(values));
}

double Table::exposed_seconds(const Row& row) const {
  return std::max(0.0, row.step_seconds() - compute_seconds());
}

double Table::samples_per_second(const Row& row) const {
  return about.batch * about.shape.world() / row.step_seconds();
}

double Table::speedup(const Row& row, const std::string& over) const {
  const Row* other = find(*this, over);
  if (other == nullptr) return 0;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(row.rounds.size(), other->rounds.size()); ++i)
    ratios.push_back(other->rounds[i].step_seconds / row.rounds[i].step_seconds);
  return median(std::move(ratios));
}

std::string Table::unlike(const Row& row) const {
  const Row* gloo = find(*this, "gloo");
  const Row& yardstick = gloo != nullptr ? *gloo : rows.front();
  for (const Round& round : row.rounds) {
    const auto& expected = yardstick.rounds.front().losses;
    for (std::size_t i = 0; i < std::min({round.losses.size(), expected.size(), kLossSteps}); ++i) {
      if (std::abs(round.losses[i] - expected[i]) <= kLossTolerance * std::abs(expected[i])) continue;
      return fmt::format(
          "{}: the loss of step {} is {:.6g}, with {} it is {:.6g}: that is more than {:g} apart",
          row.strategy, i + 1, round.losses[i], yardstick.strategy, expected[i], kLossTolerance);
    }
  }
  return "";
}

nlohmann::json to_json(const Table& table, const Row& row) {
  const Case& about = table.about;
  const Round& shown = typical(row);
  nlohmann::json json = {{"mode", about.mode},
                         {"model", about.model},
                         {"strategy", row.strategy},
                         {"peer", row.strategy == "gloo"},
                         {"hosts", about.shape.hosts},
                         {"ranks_per_host", about.shape.ranks},
                         {"servers", about.shape.servers},
                         {"rate_bps", about.shape.rate},
                         {"mtu", about.shape.mtu},
                         {"batch", about.batch},
                         {"steps", about.steps},
                         {"rounds", row.rounds.size()},
                         {"bytes", about.bytes},
                         {"samples_per_second", table.samples_per_second(row)},
                         {"steps_per_second", 1 / row.step_seconds()},
                         {"step_seconds", row.step_seconds()},
                         {"compute_seconds", table.compute_seconds()},
                         {"exposed_communication_seconds", table.exposed_seconds(row)},
                         {"busiest_link_bytes", row.busiest()},
                         {"busiest_link", shown.busiest_link},
                         {"losses", shown.losses},
                         {"step_ends", shown.ends},
                         {"speedup_over_ps", nullptr},
                         {"final_loss", nullptr}};
  if (!shown.losses.empty()) json["final_loss"] = shown.losses.back();
  if (const double speedup = table.speedup(row, "ps"); speedup > 0) json["speedup_over_ps"] = speedup;
  if (about.mode == "replay") {
    json["gpu"] = about.gpu;
    json["equivalent_bps"] = about.equivalent;
  }
  json["speedup_over"] = nlohmann::json::object();
  for (const Row& other : table.rows) {
    if (other.strategy != row.strategy && !other.rounds.empty())
      json["speedup_over"][other.strategy] = table.speedup(row, other.strategy);
  }
  return json;
}

std::string to_text(const Table& table) {
  std::string text = heading(table.about) + "\n";
  text += fmt::format("{:<18} {:>10} {:>11} {:>11} {:>11} {:>8} {:>10} {:>8}\n", "", "", "compute", "exposed",
                      "whole", "speed", "MB on the", "final");
  text += fmt::format("{:<18} {:>10} {:>11} {:>11} {:>11} {:>8} {:>10} {:>8}\n", "strategy", "samples/s",
                      "of a step", "communic.", "step", "of ps", "busy link", "loss");
  for (const Row& row : table.rows) {
    if (row.rounds.empty()) continue;
    const double speedup = table.speedup(row, "ps");
    const auto& losses = typical(row).losses;
    text += fmt::format("{:<18} {:>10.1f} {:>11} {:>11} {:>11} {:>8} {:>10.2f} {:>8}\n", row.strategy,
                        table.samples_per_second(row), milliseconds(table.compute_seconds()),
                        milliseconds(table.exposed_seconds(row)), milliseconds(row.step_seconds()),
                        speedup > 0 ? fmt::format("{:.2f} x", speedup) : "-", 1e-6 * row.busiest(),
                        losses.empty() ? "-" : fmt::format("{:.4f}", losses.back()));
  }
  return text;
}

}  // namespace passing::train
