// Which jobs a switch serves, and which slots are whose: docs/protocol.md section 3.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/address.h"
#include "base/error.h"
#include "dataplane/ranges.h"

namespace passing::dataplane {

/// What a switch can do; announced to members.
struct Capabilities {
  std::uint16_t elements = 352;  ///< E, elements per packet
  std::uint32_t slots = 512;     ///< in all, to be shared by jobs
  /// With several dataplane threads, this one serves the lanes that leave `lane_first` when divided
  /// by `lane_step`, and has slots for those only.
  std::uint32_t lane_step = 1;
  std::uint32_t lane_first = 0;

  bool serves(std::uint32_t lane) const { return lane % lane_step == lane_first; }
  /// How many of a job's lanes.
  std::uint32_t lanes_of(std::uint32_t lanes) const {
    return (lanes + lane_step - 1 - lane_first) / lane_step;
  }
};

/// What a controller installs.
struct JobSpec {
  std::uint32_t job = 0;
  std::uint32_t epoch = 0;
  std::uint64_t key = 0;
  std::uint16_t members = 1;         ///< H
  std::uint8_t lanes = 1;            ///< L
  std::uint32_t slots = 1;           ///< S, per lane
  std::uint32_t first_sequence = 0;  ///< F
  std::vector<Address> addresses;    ///< members x lanes: member m's lane l at m * lanes + l
};

/// One installation of a job.
struct Job {
  JobSpec spec;
  std::uint32_t installation = 0;  ///< never 0, never used twice by this switch
  std::uint32_t first_slot = 0;
  std::uint32_t slot_count = 0;  ///< for the lanes served here
  std::uint64_t everyone = 0;    ///< the full bitmap
  std::uint64_t departed = 0;
  mutable std::uint64_t completed = 0;  ///< chunks; counted by the aggregator
};

/// The jobs of one dataplane. Owned by one thread, like the aggregator that holds it.
class JobTable {
 public:
  explicit JobTable(const Capabilities& capabilities)
      : capabilities_(capabilities), slots_(capabilities.slots) {}

  /// Section 3: refuses what does not fit, and an epoch whose predecessor still has members.
  Expected<const Job*> install(JobSpec spec);

  /// Section 3.3: the member has left, acknowledged the end of the epoch or been declared dead.
  /// Frees the job's slots with the last one. Unknown jobs, epochs and members are ignored.
  void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member);

  const Job* find(std::uint32_t job) const {
    // A dataplane sees long runs of packets of one job.
    if (last_ != nullptr && last_->spec.job == job) return last_;
    return find_slowly(job);
  }

  std::uint32_t free_slots() const { return slots_.free(); }
  std::size_t size() const { return jobs_.size(); }

 private:
  const Job* find_slowly(std::uint32_t job) const;
  void assert_disjoint(const Job& added) const;

  Capabilities capabilities_;
  SlotRanges slots_;
  std::vector<std::unique_ptr<Job>> jobs_;
  mutable const Job* last_ = nullptr;
  std::uint32_t installations_ = 0;
};

}  // namespace passing::dataplane
