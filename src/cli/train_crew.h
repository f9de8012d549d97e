// The processes of `passing train`: one per rank, which live on from one strategy to the next.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_parts.h"
#include "lab/cluster.h"
#include "lab/launcher.h"
#include "train/row.h"

namespace passing::cli {

/// Talks with one worker per rank (integrations/torch/python/passing/train/worker.py): orders go into pipes
/// with names, answers come as lines of their output. Any failure leaves workers in unknown states: end the
/// launcher then.
class Crew {
 public:
  /// In a cluster whose services run.
  Crew(const lab::Cluster& cluster, lab::Launcher& launcher)
      : cluster_(cluster), launcher_(launcher), first_(launcher.started()) {}
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Returns when all ranks have imported what they need.
  Expected<void> start();
  /// A whole training. `progress` gets the number of steps that are done.
  Expected<train::Round> run(nlohmann::json order, const std::function<void(unsigned)>& progress);

 private:
  Expected<void> hire(unsigned rank);
  Expected<void> tell(const std::string& line);
  /// Until all have answered so.
  Expected<void> await(const std::string& event, const std::string& during);
  void hear(unsigned rank, const std::string& line);
  Expected<train::Round> sum_up(double compute, const Carried& carried, unsigned steps) const;

  const lab::Cluster& cluster_;
  lab::Launcher& launcher_;
  const std::size_t first_;  ///< index of rank 0
  Scratch scratch_;
  std::vector<int> orders_;              ///< the pipe of every rank
  std::vector<nlohmann::json> answers_;  ///< of every rank, since it was told something
  unsigned runs_ = 0;
  std::string error_;  ///< the first that a worker told of
  std::string noise_;  ///< what else they printed
  std::function<void(unsigned)> progress_;
};

}  // namespace passing::cli
