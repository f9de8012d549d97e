// Flows in time, by SimGrid.
#pragma once

#include <sys/types.h>

#include <vector>

#include "simulate/traffic.h"
#include "train/model.h"

namespace passing::simulate {

struct Scenario {
  Traffic traffic;
  std::vector<train::Schedule> jobs;  ///< the first one is timed
  unsigned in_flight = 1;             ///< buckets of a job
  unsigned iterations = 1;            ///< of which the first does not count, if there are more
};

struct Timing {
  double iteration_seconds = 0;
  double communication_seconds = 0;  ///< while at least one bucket is under way
};

/// One simulation, in a process of its own: SimGrid has one engine per process, and is asked for many.
/// Several may run at once. The process ends with this object.
class Run {
 public:
  static Expected<Run> start(const Scenario& scenario);
  Run(Run&& other) noexcept;
  Run& operator=(Run&&) = delete;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  /// Waits for it.
  Expected<Timing> finish();

 private:
  Run(pid_t child, int from) : child_(child), from_(from) {}
  pid_t child_;
  int from_;
};

/// Both at once.
Expected<Timing> simulate(const Scenario& scenario);

}  // namespace passing::simulate
