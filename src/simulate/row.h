// Answers as tables and JSON: docs/simulation.md, "What it says".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "simulate/predict.h"

namespace passing::simulate {

/// Strategies that were asked the same.
struct Case {
  std::vector<Answer> answers;

  /// How many times as fast as another; 0: it is not there.
  double speedup(const Answer& answer, const std::string& over) const;
};

nlohmann::json to_json(const Case& of, const Answer& answer);

/// Cases of one model, one below the other.
std::string to_text(const std::vector<Case>& cases);

std::string to_string(Level level);
std::string to_string(Placement placement);

}  // namespace passing::simulate
