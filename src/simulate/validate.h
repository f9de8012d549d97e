// Measured and simulated, side by side: docs/simulation.md, section 5.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "simulate/calibrate.h"
#include "simulate/engine.h"

namespace passing::simulate {

struct Comparison {
  Measured measured;
  double simulated_seconds = 0;
  bool calibrated_on = false;  ///< then it proves nothing

  double error() const;  ///< relative, its sign that of the simulation's
};

struct Comparisons {
  std::vector<Comparison> rows;

  /// Of those that were not calibrated on; absolute values.
  std::size_t cases() const;
  double median_error() const;
  double worst_error() const;
};

/// The same operations, as many in a row and in flight; explicit flows.
Expected<Scenario> scenario_of(const Measured& measured, const Cluster& like);
Expected<Comparison> compare(const Measured& measured, const Cluster& like, bool calibrated_on);

nlohmann::json to_json(const Comparisons& comparisons);
std::string to_text(const Comparisons& comparisons);

}  // namespace passing::simulate
