// What a controller asks of a switch, whatever its dataplane is.
#pragma once

#include <string>
#include <vector>

#include "dataplane/aggregator.h"
#include "net/address.h"

namespace passing::dataplane {

/// What all threads of a dataplane have counted together.
struct Totals {
  Counters counters;
  std::uint64_t system_calls = 0;
  std::uint32_t slots = 0;
  std::uint32_t free_slots = 0;
  std::vector<std::uint32_t> free_by_thread;  ///< lane l takes its slots from thread l mod their number
  std::uint64_t send_failures = 0;            ///< packets that the kernel refused
  std::uint64_t uncut_trains =
      0;  ///< several packets in one: the way to a switch in the kernel must cut them
  std::uint64_t program_runs = 0;  ///< of a switch in the kernel, as far as the kernel measured them
  double program_seconds = 0;
};

/// Called by one thread at a time.
class Dataplane {
 public:
  virtual ~Dataplane() = default;

  /// `members` are the members' socket addresses: member m's lane l at m * lanes + l.
  virtual Expected<void> install(JobSpec spec, const std::vector<net::SocketAddress>& members) = 0;
  virtual void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) = 0;
  /// One per thread; empty if the job is not installed.
  virtual std::vector<JobProgress> progress(std::uint32_t job) = 0;
  virtual Totals totals() = 0;
  virtual net::SocketAddress lane_address(std::uint32_t lane) const = 0;
  virtual const Capabilities& capabilities() const = 0;
};

}  // namespace passing::dataplane
