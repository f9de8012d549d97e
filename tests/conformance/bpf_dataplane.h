// The programs of the switch in the kernel, run on frames one by one (BPF_PROG_TEST_RUN).
#pragma once

#include <memory>
#include <vector>

#include "conformance/dataplane.h"
#include "conformance/frame.h"
#include "dataplane/bpf/bpf.h"

namespace passing::conformance {

enum class Family : std::uint8_t { four, six };

/// Where members send to in tests.
Address switch_address(Family family);
net::SocketAddress socket_address(const Address& address);
/// A member's, as a frame shows it.
Mac mac_of(const Address& address);
constexpr Mac kSwitchMac = {2, 0x50, 0x53, 0, 0, 1};

/// Moves this process into a network namespace of its own, once, with loopback up.
void enter_own_network();

/// The programs attached to veth ports, in a network namespace of this process.
std::unique_ptr<Dataplane> make_live(dataplane::Hook hook, const dataplane::Capabilities& capabilities);

/// What a program did with a frame.
struct Run {
  enum class Did : std::uint8_t { passed, dropped, to_sender, to_everyone };
  Did did = Did::passed;
  std::vector<std::byte> frame;  ///< afterwards
};

class BpfRunner {
 public:
  BpfRunner(dataplane::Hook hook, Family family, const dataplane::Capabilities& capabilities,
            unsigned ports = 1);

  Expected<void> install(const dataplane::JobSpec& spec);
  Run run(std::span<const std::byte> frame) const;
  dataplane::BpfDataplane& dataplane() const { return *dataplane_; }

 private:
  dataplane::Hook hook_;
  std::unique_ptr<dataplane::BpfDataplane> dataplane_;
};

}  // namespace passing::conformance
