// What `passing simulate` does.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/simulate_input.h"

namespace passing::cli {

/// Answers all questions, several at once, and prints tables; results and what could not be simulated go into
/// `json`.
Expected<void> sweep(const Questions& questions, const SimulateOptions& options, nlohmann::json& json);

/// Runs `passing bench` in a lab that is like the cluster, and gives back where its results are: a file in
/// `directory`.
Expected<std::string> measure_in_lab(const SimulateOptions& options, const simulate::Cluster& cluster,
                                     const std::string& directory);

/// Compares with a file of results, prints, and puts the comparison into `json`. Without a calibration, it is
/// made from one case of the file: the one that the cluster describes, or the last.
Expected<void> compare_with(const std::string& file, simulate::Cluster cluster, bool calibrated,
                            nlohmann::json& json);

}  // namespace passing::cli
