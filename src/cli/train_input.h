// What `passing train` is told: options, models and strategies, checked.
#pragma once

#include <string>
#include <vector>

#include "cli/lab_parts.h"
#include "cli/share.h"
#include "train/model.h"

namespace passing::cli {

struct TrainOptions {
  LabOptions lab;
  std::string mode = "real";
  std::vector<std::string> models;  ///< names, or in a replay files; empty: the default
  std::vector<std::string> strategies = {"all"};
  std::vector<std::string> equivalents = {"10gbit"};
  unsigned steps = 0;  ///< 0: by the mode
  unsigned batch = 4;
  unsigned rounds = 1;
  std::string json;
  std::string report;
  std::string command;

  bool replay() const { return mode == "replay"; }
};

/// One model at one rate: what a table is about.
struct Task {
  std::string model;
  train::Model profile;   ///< in a replay
  double equivalent = 0;  ///< the same
};

/// Those that real training knows, as worker.py does.
const std::vector<std::string>& real_models();
/// How many parameters one of them has.
std::size_t real_parameters(const std::string& model);
/// What "all" means, in the order of the table.
const std::vector<std::string>& trained_strategies();

/// Everything that is to be trained; one sentence if something of it does not exist.
Expected<std::vector<Task>> tasks_of(const TrainOptions& options);
Expected<std::vector<std::string>> strategies_of(const TrainOptions& options);

}  // namespace passing::cli
