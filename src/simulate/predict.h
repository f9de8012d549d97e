// One prediction: a strategy, a model and so many GPUs of a cluster. docs/simulation.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "simulate/engine.h"

namespace passing::simulate {

/// What is asked.
struct Question {
  Strategy strategy;
  Layout layout;
  std::string model;
  train::Schedule schedule;
  std::vector<std::string> beside;           ///< models of other jobs
  std::vector<train::Schedule> beside_jobs;  ///< and what they do
  Level level = Level::folded;

  unsigned jobs() const { return 1 + static_cast<unsigned>(beside_jobs.size()); }
};

/// Explicit up to kMostExplicit GPUs.
Level automatic_level(unsigned gpus);
/// Why it cannot be answered at that level: a sentence, or nothing.
std::string unfit(const Question& question);

Scenario scenario_of(const Question& question);

/// Where an iteration's time goes. What does not hide behind compute belongs to whatever limits the buckets.
struct Shares {
  double compute = 0;
  double in_host = 0;
  double network = 0;
  double switch_limit = 0;
  double latency = 0;
};

struct Answer {
  Question question;
  Timing timing;
  double compute_seconds = 0;
  std::string busiest_link;  ///< that needs the longest for what it carries
  double busiest_link_bytes = 0;
  double busiest_link_share = 0;  ///< of the iteration in which it is busy
  double slots_needed = 0;        ///< for full rate; 0: not through a switch
  Shares shares;

  double exposed_seconds() const;
  double scaling_efficiency() const;
};

Answer answer(const Question& question, const Traffic& traffic, const Timing& timing);

}  // namespace passing::simulate
