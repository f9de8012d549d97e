// What the conformance suite needs of a dataplane. Each dataplane implements it once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/aggregator.h"

namespace passing::conformance {

/// A packet that left the dataplane. `to` is empty for all members.
struct Sent {
  std::optional<std::uint16_t> to;
  std::vector<std::byte> bytes;
};

class Dataplane {
 public:
  virtual ~Dataplane() = default;
  virtual Expected<void> install(const dataplane::JobSpec& spec) = 0;
  virtual void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) = 0;
  virtual std::optional<Sent> handle(const Address& from, const std::vector<std::byte>& packet) = 0;
  /// Whether the payload it sums is big-endian.
  virtual bool big_endian() const = 0;
  /// A counter of protocol.md section 4.4 by name; drops by their reason.
  virtual std::optional<std::uint64_t> counter(const std::string& name) const = 0;
};

/// The dataplanes to test, by name.
struct Candidate {
  const char* name;
  std::unique_ptr<Dataplane> (*make)(const dataplane::Capabilities& capabilities);
  bool needs_root = false;
};

std::unique_ptr<Dataplane> make_aggregator(const dataplane::Capabilities& capabilities);
std::unique_ptr<Dataplane> make_sockets(const dataplane::Capabilities& capabilities);
std::unique_ptr<Dataplane> make_plain_sockets(const dataplane::Capabilities& capabilities);

#ifdef PASSING_HAS_BPF
/// The switch in the kernel: its programs by test run, and attached to ports.
std::vector<Candidate> bpf_candidates();
#endif

std::optional<std::uint64_t> counter_by_name(const dataplane::Counters& counters, const std::string& name);

}  // namespace passing::conformance
