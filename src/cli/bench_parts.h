// What `passing bench` runs: our strategies and the peers, each in the same loop (bench/peers).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "benchmark/row.h"
#include "lab/cluster.h"
#include "lab/launcher.h"

namespace passing::cli {

/// One that is measured.
struct Contender {
  std::string name;       ///< as users write it: "passing:rack", "openmpi_ring"
  std::string strategy;   ///< of ours, or the peer's name
  std::string library;    ///< passing, gloo or open_mpi
  std::string algorithm;  ///< of the peer
  bool rack = false;
  std::string dataplane;  ///< of the switch that it goes through; empty: through none

  bool peer() const { return library != "passing"; }
};

/// The peers there are.
std::vector<std::string> peers();
/// Sorts out a name; one sentence if there is none of that name.
Expected<Contender> contender(const std::string& name);

/// Where a peer's program is, or why it is not.
Expected<std::filesystem::path> program_of(const Contender& contender);

/// How much of one size makes a sample.
struct Work {
  std::size_t bytes = 0;
  std::size_t repeat = 1;
  std::size_t warm_up = 0;
  std::size_t in_flight = 1;
};

/// One launch of all ranks in a cluster whose services run. no_capacity: the contender cannot do that.
Expected<benchmark::Sample> run_sample(const Contender& contender, const Work& work,
                                       const lab::Cluster& cluster, lab::Launcher& launcher);

}  // namespace passing::cli
