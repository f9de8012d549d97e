#include "cli/train_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "passing/config.h"

namespace passing::cli {
namespace {

// Their sizes are known before Python is; a worker whose model has another says so.
constexpr std::pair<const char*, std::size_t> kRealModels[] = {
    {"digits", 301'066}, {"digits_cnn", 283'786}, {"mlp5m", 4'993'410}};

}  // namespace

const std::vector<std::string>& real_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, parameters] : kRealModels) all.emplace_back(name);
    return all;
  }();
  return names;
}

std::size_t real_parameters(const std::string& model) {
  for (const auto& [name, parameters] : kRealModels) {
    if (model == name) return parameters;
  }
  return 0;
}

const std::vector<std::string>& trained_strategies() {
  static const std::vector<std::string> names = {
      "ps",   "ps_hierarchical", "ps_sharded", "halving_doubling", "ring", "ring_hierarchical", "in_network",
      "gloo", "passing"};
  return names;
}

Expected<std::vector<Task>> tasks_of(const TrainOptions& options) {
  std::vector<Task> tasks;
  std::vector<std::string> names = options.models;
  if (names.empty()) names = {options.replay() ? "resnet50" : "digits"};
  if (names == std::vector<std::string>{"all"}) names = options.replay() ? replay_models() : real_models();
  for (const std::string& name : names) {
    if (!options.replay()) {
      if (std::ranges::find(real_models(), name) == real_models().end()) {
        return fail(ErrorCode::invalid_argument,
                    fmt::format("--model: '{}' is no model to train: there are {}; --mode replay has {}",
                                name, fmt::join(real_models(), ", "), fmt::join(replay_models(), ", ")));
      }
      tasks.push_back({.model = name, .profile = {}});
      continue;
    }
    const auto file = model_file(name);
    if (!file) return tl::unexpected(file.error());
    const auto profile = train::read_model(*file);
    if (!profile) return tl::unexpected(profile.error());
    for (const std::string& rate : options.equivalents) {
      tasks.push_back(
          {.model = profile->name, .profile = *profile, .equivalent = lab::bits_per_second(rate)});
    }
  }
  return tasks;
}

Expected<std::vector<std::string>> strategies_of(const TrainOptions& options) {
  if (options.strategies == std::vector<std::string>{"all"}) return trained_strategies();
  std::vector<std::string> known = strategies();
  known.emplace_back("gloo");
  for (const std::string& name : options.strategies) {
    if (std::ranges::find(known, name) == known.end()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--strategies: '{}' is no strategy: there are {}; or all", name,
                              fmt::join(known, ", ")));
    }
  }
  return options.strategies;
}

}  // namespace passing::cli
