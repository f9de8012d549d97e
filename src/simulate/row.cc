#include "simulate/row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace passing::simulate {
namespace {

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", 1e3 * seconds); }

std::string heading(const Answer& first) {
  const Question& question = first.question;
  const Cluster& cluster = question.layout.cluster;
  std::string text = fmt::format(
      "{} on {}: {:.3g} MB of gradients in {} buckets, {} GPUs per host, links {:g} Gbit/s", question.model,
      cluster.name, sizeof(float) * 1e-6 * static_cast<double>(question.schedule.elements()),
      question.schedule.buckets.size(), question.layout.gpus, cluster.nic_gbps);
  if (!question.beside.empty()) text += fmt::format(", beside {}", fmt::join(question.beside, ", "));
  return text;
}

}  // namespace

std::string to_string(Level level) { return level == Level::folded ? "folded" : "explicit"; }

std::string to_string(Placement placement) {
  return placement == Placement::none ? "none" : placement == Placement::spine ? "spine" : "tree";
}

double Case::speedup(const Answer& answer, const std::string& over) const {
  const auto found = std::ranges::find_if(
      answers, [&](const Answer& each) { return each.question.strategy.name() == over; });
  return found == answers.end() ? 0 : found->timing.iteration_seconds / answer.timing.iteration_seconds;
}

nlohmann::json to_json(const Case& of, const Answer& answer) {
  const Question& question = answer.question;
  const Layout& layout = question.layout;
  const Cluster& cluster = layout.cluster;
  const double slot_bytes = 2 * 4.0 * cluster.elements_per_packet;
  nlohmann::json json = {{"strategy", question.strategy.base},
                         {"local_domain", question.strategy.rack ? "rack" : "host"},
                         {"model", question.model},
                         {"cluster", cluster.name},
                         {"gpus", layout.world()},
                         {"level", to_string(question.level)},
                         {"hosts", layout.hosts},
                         {"gpus_per_host", layout.gpus},
                         {"racks", layout.racks},
                         {"servers", cluster.servers},
                         {"rate_bps", 1e9 * cluster.nic_gbps},
                         {"oversubscription", cluster.oversubscription},
                         {"placement", to_string(cluster.placement)},
                         {"slots", cluster.slots},
                         {"beside", fmt::format("{}", fmt::join(question.beside, ", "))},
                         {"bytes", sizeof(float) * question.schedule.elements()},
                         {"buckets", question.schedule.buckets.size()},
                         {"iteration_seconds", answer.timing.iteration_seconds},
                         {"compute_seconds", answer.compute_seconds},
                         {"communication_seconds", answer.timing.communication_seconds},
                         {"exposed_communication_seconds", answer.exposed_seconds()},
                         {"scaling_efficiency", answer.scaling_efficiency()},
                         {"speedup_over_ps", nullptr},
                         {"busiest_link", answer.busiest_link},
                         {"busiest_link_bytes", answer.busiest_link_bytes},
                         {"busiest_link_share", answer.busiest_link_share},
                         {"in_host_seconds", answer.shares.in_host},
                         {"network_seconds", answer.shares.network},
                         {"switch_seconds", answer.shares.switch_limit},
                         {"latency_seconds", answer.shares.latency},
                         {"slots_needed", nullptr},
                         {"switch_memory_bytes", nullptr},
                         {"switch_levels", nullptr}};
  if (answer.slots_needed > 0) {
    json["slots_needed"] = answer.slots_needed;
    json["switch_memory_bytes"] = answer.slots_needed * slot_bytes;
    json["switch_levels"] = layout.levels();
  }
  json["speedup_over"] = nlohmann::json::object();
  for (const Answer& other : of.answers) {
    const std::string name = other.question.strategy.name();
    if (name != question.strategy.name()) json["speedup_over"][name] = of.speedup(answer, name);
  }
  if (const double speedup = of.speedup(answer, "ps"); speedup > 0) json["speedup_over_ps"] = speedup;
  return json;
}

std::string to_text(const std::vector<Case>& cases) {
  std::string text = heading(cases.front().answers.front()) + "\n";
  text += fmt::format("{:>7} {:<18} {:>13} {:>13} {:>13} {:>8} {:>8} {:>9}  {:<18} {}\n", "GPUs", "strategy",
                      "iteration", "communication", "exposed", "effic.", "of ps", "of ring", "busiest link",
                      "level");
  for (const Case& each : cases) {
    for (const Answer& row : each.answers) {
      const auto times = [&](const char* over) {
        const double speedup = each.speedup(row, over);
        return speedup > 0 ? fmt::format("{:.2f} x", speedup) : "-";
      };
      text += fmt::format("{:>7} {:<18} {:>13} {:>13} {:>13} {:>8} {:>8} {:>9}  {:<18} {}\n",
                          row.question.layout.world(), row.question.strategy.name(),
                          milliseconds(row.timing.iteration_seconds),
                          milliseconds(row.timing.communication_seconds), milliseconds(row.exposed_seconds()),
                          fmt::format("{:.1f} %", 100 * row.scaling_efficiency()), times("ps"), times("ring"),
                          row.busiest_link, to_string(row.question.level));
    }
  }
  return text;
}

}  // namespace passing::simulate
