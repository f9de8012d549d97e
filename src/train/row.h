// What was measured of one strategy, training one model on one cluster.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "benchmark/limits.h"

namespace passing::train {

/// One run: from the seed to the last step.
struct Round {
  double step_seconds = 0;     ///< the mean over its steps, by the slowest rank
  double compute_seconds = 0;  ///< of a step that is not synchronised, by the slowest rank
  double busiest = 0;          ///< bytes of a step over the busiest link, one way, headers included
  std::string busiest_link;
  std::vector<double> losses;  ///< per step, warm-up included, the mean over ranks; none in a replay
  std::vector<double> ends;    ///< when each step after the warm-up ended, since the first of them began
};

/// What all rows of a table have in common.
struct Case {
  std::string mode;       ///< real or replay
  std::string model;      ///< its name
  std::string gpu;        ///< in a replay
  double equivalent = 0;  ///< bit/s that the links stand for in a replay; 0: themselves
  benchmark::Shape shape;
  unsigned batch = 1;  ///< samples of a rank in a step
  unsigned steps = 1;
  std::size_t bytes = 0;  ///< of gradients, as they are summed here
};

struct Row {
  std::string strategy;
  std::vector<Round> rounds;

  double step_seconds() const;  ///< the median of rounds, as all figures here
  double busiest() const;
};

/// A table: strategies that did the same work.
struct Table {
  Case about;
  std::vector<Row> rows;

  /// Taken together, since it has nothing to do with the strategy.
  double compute_seconds() const;
  double exposed_seconds(const Row& row) const;
  double samples_per_second(const Row& row) const;
  /// By how much a strategy is faster than another: the median over rounds of what one round shows. 0: not
  /// known.
  double speedup(const Row& row, const std::string& over) const;
  /// What is wrong with a curve of losses; empty: it is that of the first one given, gloo if it takes part.
  std::string unlike(const Row& row) const;
};

nlohmann::json to_json(const Table& table, const Row& row);
/// For people, with a heading.
std::string to_text(const Table& table);

/// How far losses may lie from gloo's, and over how many steps: docs/train.md.
constexpr double kLossTolerance = 1e-4;
constexpr std::size_t kLossSteps = 50;

}  // namespace passing::train
