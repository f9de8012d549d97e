// The switch's side of the protocol: docs/protocol.md section 4. No I/O, no clock, no thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/address.h"
#include "dataplane/jobs.h"
#include "numeric/kernels.h"
#include "wire/packet.h"

namespace passing::dataplane {

/// Plain integers of one aggregator; collected by whoever shows them.
struct Counters {
  std::uint64_t packets_in = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t packets_out = 0;  ///< a broadcast counts once per member
  std::uint64_t bytes_out = 0;
  std::uint64_t retransmissions = 0;  ///< contributions that came with AGAIN
  std::uint64_t adds = 0;
  std::uint64_t results = 0;
  std::uint64_t results_again = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t notices = 0;
  std::uint64_t notices_again = 0;
  std::uint64_t status_answers = 0;
  std::array<std::uint64_t, wire::kDropReasons> drops{};

  Counters& operator+=(const Counters& other);
};

/// What the slots of a job say: for operators.
struct JobProgress {
  std::uint64_t completed = 0;     ///< chunks, since the job was installed
  std::uint32_t slots_in_use = 0;  ///< versions that hold a chunk of this job
  std::uint32_t oldest = 0;        ///< sequence of the oldest chunk that is filling, if any
  std::uint64_t missing = 0;       ///< whose contributions it lacks; 0: nothing is filling
  std::vector<std::uint64_t> lag;  ///< per member: filling chunks without its contribution
};

/// Goes over the versions that slots of a job hold: the same for all dataplanes.
class ProgressOfSlots {
 public:
  explicit ProgressOfSlots(const Job& job) : job_(job) { result_.lag.resize(job.spec.members); }
  void add(std::uint32_t installation, std::uint32_t sequence, std::uint64_t bitmap, bool poisoned);
  JobProgress take() { return std::move(result_); }

 private:
  const Job& job_;
  JobProgress result_;
};

/// What to do with the packet written to `out`.
struct Verdict {
  enum class Send : std::uint8_t { nothing, sender, everyone };
  Send send = Send::nothing;
  std::size_t bytes = 0;
  const Job* job = nullptr;  ///< whose members `everyone` means
};

/// Sums chunks in slots. One thread owns it; several threads have one each, for different lanes.
class Aggregator {
 public:
  explicit Aggregator(const Capabilities& capabilities, const numeric::Kernels& kernels = numeric::kernels());

  /// Handles one packet. `out` has room for packet_bytes(max(E, 5)) bytes and does not overlap it.
  Verdict handle(const Address& from, wire::Bytes packet, std::byte* out);

  JobProgress progress(const Job& job) const;

  JobTable& jobs() { return jobs_; }
  const JobTable& jobs() const { return jobs_; }
  const Capabilities& capabilities() const { return capabilities_; }
  const Counters& counters() const { return counters_; }

 private:
  // One version of a slot (section 4.1). The bitmap is the only truth about contributors.
  struct Version {
    std::uint64_t bitmap = 0;
    std::uint32_t installation = 0;  // 0: nobody's
    std::uint32_t sequence = 0;
    std::uint32_t tag = 0;
    std::uint16_t word = 0;
    std::uint16_t count = 0;
    std::uint16_t first = 0;
    std::uint16_t second = 0;
    wire::SlotState poison = wire::SlotState::absent;  // disagreement or aborted, if poisoned
  };

  // A packet that passed section 2, and the version it belongs to.
  struct Request {
    wire::Header header{};
    const Job* job = nullptr;
    Version* version = nullptr;
    std::int32_t* sums = nullptr;
    wire::Bytes packet{};
    std::byte* out = nullptr;
  };

  wire::Drop admit(const Address& from, Request& request);
  Verdict drop(wire::Drop reason);
  Verdict open(Request& request);
  Verdict add(Request& request);
  Verdict poison(Request& request, wire::SlotState why);
  Verdict send_result(Request& request, bool again);
  Verdict send_report(Request& request, wire::Type type, const wire::Report& report, Verdict::Send to);
  Verdict send_status(Request& request);
  Verdict sent(const Request& request, Verdict::Send to, std::size_t bytes);
  static wire::Report report_of(const Request& request);

  Capabilities capabilities_;
  const numeric::Kernels* kernels_;
  JobTable jobs_;
  Counters counters_;
  std::size_t stride_;  // int32 per version, whole cache lines
  std::vector<Version> versions_;
  std::unique_ptr<std::int32_t[], void (*)(void*)> sums_;
};

}  // namespace passing::dataplane
