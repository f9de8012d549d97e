// The switch as a process: aggregators on UDP sockets, a thread each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "controller/dataplane.h"
#include "net/udp.h"

namespace passing::dataplane {

/// Lanes map to sockets and threads: lane l is served by thread l mod T, on port base + l mod T.
/// Packets never cross threads and the packet path takes no lock. Control calls come from one
/// thread at a time and run between packets.
class UserspaceDataplane : public Dataplane {
 public:
  struct Options {
    net::SocketAddress listen;  ///< port 0: any, the others follow it
    unsigned threads = 1;
    Capabilities capabilities;
    bool segmentation = true;
    bool echo = false;  ///< for benchmarks: nothing is added, a contribution comes back
  };

  static Expected<std::unique_ptr<UserspaceDataplane>> start(const Options& options);
  ~UserspaceDataplane() override;

  Expected<void> install(JobSpec spec, const std::vector<net::SocketAddress>& members) override;
  void depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) override;
  std::vector<JobProgress> progress(std::uint32_t job) override;
  Totals totals() override;
  net::SocketAddress lane_address(std::uint32_t lane) const override;
  const Capabilities& capabilities() const override { return options_.capabilities; }

  bool segmentation() const;
  std::vector<std::string> warnings() const;

 private:
  class Worker;
  explicit UserspaceDataplane(const Options& options);

  Options options_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace passing::dataplane
