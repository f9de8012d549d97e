// Flows along links: what the engine is given. docs/simulation.md, section 2.
#pragma once

#include <string>
#include <vector>

#include "simulate/loads.h"

namespace passing::simulate {

enum class Level { folded, explicit_flows };
constexpr unsigned kMostExplicit = 1024;  ///< GPUs

struct Link {
  std::string name;
  Kind kind;
  double rate;  ///< bytes per second
};

/// How many times as many bytes as the flow has go over a link.
struct Use {
  unsigned link;
  unsigned times;
};

struct Flow {
  std::vector<Use> uses;
  double tensors;
};

/// Flows that begin together; the next step begins when all have ended, after the latency.
struct Step {
  std::vector<Flow> flows;
  double latency;
};

/// Everything one all-reduce moves, for any number of bytes.
struct Traffic {
  std::vector<Link> links;
  std::vector<Step> steps;
  std::vector<Step> small_steps;  ///< up to kWholeBytes; none: the same
  bool overlapping =
      false;  ///< a bucket's steps with later ones of the bucket before; else one after the other

  const std::vector<Step>& steps_for(double bytes) const {
    return bytes <= kWholeBytes && !small_steps.empty() ? small_steps : steps;
  }
};

Traffic traffic_of(const Strategy& strategy, const Layout& layout, Level level, unsigned jobs);

}  // namespace passing::simulate
