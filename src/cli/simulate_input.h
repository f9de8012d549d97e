// What `passing simulate` is told, checked and sorted out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulate/calibrate.h"
#include "simulate/predict.h"

namespace passing::cli {

struct SimulateOptions {
  std::string cluster;
  std::vector<std::string> models = {"vgg16"};
  std::vector<std::string> strategies = {"all"};
  std::vector<std::string> sweeps;  ///< "gpus=8..1024"
  std::vector<std::string> beside;  ///< models of other jobs
  std::string level = "auto";
  std::string calibrate;  ///< a file of results, or none
  bool validate = false;
  std::string against;  ///< a file of results to compare with, or none
  std::vector<unsigned> lab_hosts = {2, 4};
  std::vector<unsigned> lab_ranks = {1, 2};
  std::vector<std::string> lab_sizes = {"1M", "4M"};
  unsigned lab_samples = 1;
  std::string json;
  std::string report;
  std::string command;

  bool all_strategies() const { return strategies == std::vector<std::string>{"all"}; }
};

Expected<std::vector<simulate::Strategy>> strategies_of(const SimulateOptions& options);

/// What one table is about, and its cases: questions that differ in the strategy only.
struct SimulatedTable {
  std::vector<std::vector<simulate::Question>> cases;
};

/// A strategy that a case goes without.
struct Absent {
  std::string strategy;
  unsigned gpus = 0;
  std::string reason;
};

struct Questions {
  std::vector<SimulatedTable> tables;
  std::vector<Absent> absent;
};

/// Every combination of models, swept values and strategies. One sentence if something does not exist, or
/// cannot be simulated anywhere although it was asked for by name.
Expected<Questions> questions_of(const SimulateOptions& options, const simulate::Cluster& cluster);

}  // namespace passing::cli
