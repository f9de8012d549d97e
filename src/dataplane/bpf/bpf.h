// The switch in the kernel: its programs, their maps, and where they are attached. No packet passes this
// process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controller/dataplane.h"

namespace passing::dataplane {

/// Where in the kernel packets are handled.
enum class Hook : std::uint8_t {
  xdp,  ///< before the network stack, by the driver if it can: frames of one buffer, no queues
  tc,   ///< at the entrance of the stack: any MTU, and answers go through the ports' queues
};
const char* to_string(Hook hook);

/// Jobs come and go through maps; the programs stay as they are loaded. They are gone when this object, or
/// its process, is gone.
class BpfDataplane : public Dataplane {
 public:
  struct Options {
    Hook hook = Hook::tc;
    net::SocketAddress listen;            ///< an address, no wildcard: what goes elsewhere is not ours
    unsigned ports = 1;                   ///< UDP ports from that on; lane l uses the one of l mod ports
    std::vector<std::string> interfaces;  ///< the ports of the switch; none: the programs are only loaded
    Capabilities capabilities;
    bool profile = false;  ///< have the kernel measure how long programs run
  };

  static Expected<std::unique_ptr<BpfDataplane>> start(const Options& options);
  ~BpfDataplane() override;

  Expected<void> install(JobSpec spec, const std::vector<net::SocketAddress>& members) override;
  void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) override;
  std::vector<JobProgress> progress(std::uint32_t job) override;
  Totals totals() override;
  net::SocketAddress lane_address(std::uint32_t lane) const override;
  const Capabilities& capabilities() const override;

  /// The descriptor of the program that takes packets in, for BPF_PROG_TEST_RUN.
  int program() const;
  /// How many instructions the verifier walked to prove the programs safe.
  std::uint32_t verified_instructions() const;
  /// What went otherwise than it should, in sentences.
  std::vector<std::string> warnings() const;

 private:
  struct State;
  explicit BpfDataplane(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace passing::dataplane
