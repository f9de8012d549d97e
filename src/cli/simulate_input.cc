#include "cli/simulate_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cli/share.h"
#include "lab/plan.h"

namespace passing::cli {
namespace {

using simulate::Cluster;

tl::unexpected<Error> refuse(const std::string& sentence) {
  return fail(ErrorCode::invalid_argument, sentence);
}

/// One value that a sweep goes through.
struct Variation {
  std::string name;
  std::vector<double> values;
};

struct Sweepable {
  const char* name;
  const char* example;
  bool whole;
  double most;
  void (*set)(Cluster&, double);  ///< null: GPUs, which are asked for, not described
};

const Sweepable kSweepable[] = {
    {"gpus", "8..65536", true, 1 << 24, nullptr},
    {"gpus_per_host", "1..8", true, 64,
     [](Cluster& cluster, double value) {
       const unsigned all = cluster.gpus();
       cluster.gpus_per_host = static_cast<unsigned>(value);
       cluster.hosts = std::max(1U, all / cluster.gpus_per_host);
       cluster.hosts_per_rack = std::min(cluster.hosts_per_rack, cluster.hosts);
     }},
    {"rate", "10gbit,100gbit", false, 1e15,
     [](Cluster& cluster, double value) {
       if (cluster.server_gbps == cluster.nic_gbps) cluster.server_gbps = 1e-9 * value;
       cluster.nic_gbps = 1e-9 * value;
     }},
    {"servers", "1..8", true, 65536,
     [](Cluster& cluster, double value) { cluster.servers = static_cast<unsigned>(value); }},
    {"slots", "256..65536", true, 1 << 30,
     [](Cluster& cluster, double value) { cluster.slots = static_cast<unsigned>(value); }},
    {"oversubscription", "1..8", false, 1000,
     [](Cluster& cluster, double value) { cluster.oversubscription = value; }},
};

const Sweepable* sweepable(const std::string& name) {
  const auto* found =
      std::ranges::find_if(kSweepable, [&](const Sweepable& each) { return name == each.name; });
  return found == std::end(kSweepable) ? nullptr : found;
}

// A number above 0, or NaN.
double value_of(const Sweepable& what, const std::string& text) {
  if (std::string(what.name) == "rate") {
    const double bits = lab::bits_per_second(text);
    return bits > 0 ? bits : std::nan("");
  }
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool fits = !text.empty() && *end == 0 && value > 0 && value <= what.most &&
                    (!what.whole || value == std::floor(value));
  return fits ? value : std::nan("");
}

// "8..64" by doubling, its end included; "1,2,4".
Expected<Variation> variation_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  const Sweepable* what = sweepable(text.substr(0, equals));
  if (what == nullptr || equals == std::string::npos) {
    std::string names;
    for (const Sweepable& each : kSweepable)
      names += fmt::format("{}{}={}", names.empty() ? "" : ", ", each.name, each.example);
    return refuse(fmt::format("--sweep: '{}' is nothing that can be swept: there are {}", text, names));
  }
  Variation made{.name = what->name, .values = {}};
  const auto wrong = [&] {
    return refuse(
        fmt::format("--sweep: '{}' must be values above 0 such as {}={}", text, what->name, what->example));
  };
  for (std::size_t at = equals + 1; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const std::size_t dots = part.find("..");
    const double first = value_of(*what, part.substr(0, dots));
    const double last = dots == std::string::npos ? first : value_of(*what, part.substr(dots + 2));
    if (!(first <= last)) return wrong();
    double value = first;
    while (value < last) {
      made.values.push_back(value);
      value *= 2;
    }
    made.values.push_back(last);
    at = comma + 1;
  }
  return made;
}

struct Swept {
  Cluster cluster;
  std::vector<unsigned> gpus;
};

// All combinations, but of GPUs, which make the rows of a table.
Expected<std::vector<Swept>> swept(const SimulateOptions& options, const Cluster& cluster) {
  std::vector<Swept> made = {{cluster, {}}};
  std::vector<unsigned> gpus;
  std::set<std::string> seen;
  for (const std::string& text : options.sweeps) {
    const auto variation = variation_of(text);
    if (!variation) return tl::unexpected(variation.error());
    if (!seen.insert(variation->name).second) {
      return refuse(
          fmt::format("--sweep: {0} is swept twice: give all its values at once, {0}=A,B", variation->name));
    }
    for (const double value : variation->values) {
      if (variation->name != "gpus_per_host" || cluster.gpus() % static_cast<unsigned>(value) == 0) continue;
      return refuse(fmt::format("--sweep: gpus_per_host={} does not divide the {} GPUs of {}", value,
                                cluster.gpus(), cluster.name));
    }
    if (variation->name == "gpus") {
      gpus.assign(variation->values.begin(), variation->values.end());
      continue;
    }
    std::vector<Swept> next;
    for (const Swept& each : made) {
      for (const double value : variation->values) {
        next.push_back(each);
        sweepable(variation->name)->set(next.back().cluster, value);
      }
    }
    made = std::move(next);
  }
  for (Swept& each : made) each.gpus = gpus.empty() ? std::vector{each.cluster.gpus()} : gpus;
  return made;
}

Expected<train::Model> model_of(const std::string& name) {
  const auto file = model_file(name);
  if (!file) return tl::unexpected(file.error());
  return train::read_model(*file);
}

Expected<std::vector<train::Model>> models_of(std::vector<std::string> names) {
  if (names == std::vector<std::string>{"all"}) names = replay_models();
  std::vector<train::Model> models;
  for (const std::string& name : names) {
    auto model = model_of(name);
    if (!model) return tl::unexpected(model.error());
    models.push_back(std::move(*model));
  }
  return models;
}

simulate::Level level_for(const SimulateOptions& options, unsigned gpus) {
  if (options.level == "auto") return simulate::automatic_level(gpus);
  return options.level == "folded" ? simulate::Level::folded : simulate::Level::explicit_flows;
}

}  // namespace

Expected<std::vector<simulate::Strategy>> strategies_of(const SimulateOptions& options) {
  if (options.all_strategies()) return simulate::all_strategies();
  std::vector<simulate::Strategy> found;
  for (const std::string& name : options.strategies) {
    const auto strategy = simulate::strategy_of(name);
    if (!strategy) return tl::unexpected(strategy.error());
    found.push_back(*strategy);
  }
  return found;
}

Expected<Questions> questions_of(const SimulateOptions& options, const Cluster& cluster) {
  const auto strategies = strategies_of(options);
  if (!strategies) return tl::unexpected(strategies.error());
  const auto models = models_of(options.models);
  if (!models) return tl::unexpected(models.error());
  const auto others = models_of(options.beside);
  if (!others) return tl::unexpected(others.error());
  const auto variations = swept(options, cluster);
  if (!variations) return tl::unexpected(variations.error());

  Questions made;
  std::map<std::string, std::string> refused;  // by strategy: why, as long as it can run nowhere
  for (const simulate::Strategy& each : *strategies) refused[each.name()];
  for (const train::Model& model : *models) {
    for (const Swept& variation : *variations) {
      SimulatedTable table;
      for (const unsigned gpus : variation.gpus) {
        const auto layout = simulate::lay_out(variation.cluster, gpus);
        if (!layout) return tl::unexpected(layout.error());
        std::vector<simulate::Question> questions;
        for (const simulate::Strategy& strategy : *strategies) {
          simulate::Question question{.strategy = strategy,
                                      .layout = *layout,
                                      .model = model.name,
                                      .schedule = train::schedule(model, 1),
                                      .level = level_for(options, gpus)};
          for (const train::Model& other : *others) {
            question.beside.push_back(other.name);
            question.beside_jobs.push_back(train::schedule(other, 1));
          }
          if (const std::string wrong = simulate::unfit(strategy, *layout); !wrong.empty()) {
            made.absent.push_back({strategy.name(), gpus, wrong});
            if (refused.contains(strategy.name())) refused[strategy.name()] = wrong;
            continue;
          }
          if (const std::string wrong = simulate::unfit(question); !wrong.empty()) return refuse(wrong);
          refused.erase(strategy.name());
          questions.push_back(std::move(question));
        }
        if (!questions.empty()) table.cases.push_back(std::move(questions));
      }
      if (!table.cases.empty()) made.tables.push_back(std::move(table));
    }
  }
  for (const auto& [name, why] : refused) {
    if (!options.all_strategies()) return refuse(why);
  }
  return made;
}

}  // namespace passing::cli
