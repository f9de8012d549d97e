// What a strategy must at least carry over links, and how long that takes: docs/benchmarks.md, "Limits".
#pragma once

#include <cstddef>
#include <string>

namespace passing::benchmark {

/// A cluster, and what is summed in it.
struct Shape {
  unsigned hosts = 1;
  unsigned ranks = 1;  ///< per host
  unsigned racks = 1;
  unsigned servers = 0;   ///< dedicated
  double rate = 0;        ///< bit/s of a host's link, each way; 0: not shaped
  double spine_rate = 0;  ///< of a rack's uplink; 0: not shaped
  int mtu = 1500;

  unsigned world() const { return hosts * ranks; }
};

/// Tensors that one all-reduce moves at least, one way, over the busiest link of each kind.
struct Load {
  double host = 0;
  double uplink = 0;  ///< of a rack
  double server = 0;  ///< a dedicated one's link
};

/// `rack`: hosts of a rack sum first (passing, auto). Names of peers are known too.
Load least_load(const std::string& strategy, const Shape& shape, bool rack);

/// Whether the strategy's tensors go through the switch.
bool through_switch(const std::string& strategy);

/// Payload over bytes on the wire, Ethernet headers included, as tbf counts them.
double header_ceiling(const std::string& strategy, int mtu);

/// In which the links can carry that load, headers included. 0: they are not shaped, or nothing is carried.
double least_seconds(const std::string& strategy, const Shape& shape, bool rack, std::size_t bytes);

}  // namespace passing::benchmark
