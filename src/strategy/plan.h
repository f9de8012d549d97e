// Which way an all-reduce goes, from the configuration alone: docs/collectives.md, "auto".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "strategy/call.h"

namespace passing::strategy {

enum class Way : std::uint8_t {
  in_host,   ///< there is only one host
  network,   ///< the switch: passing
  ring,      ///< a ring of hosts: ring_hierarchical
  narrow,    ///< the same for float16 and bfloat16, whose sums of hosts travel in 16 bits
  doubling,  ///< halving and doubling among hosts
};

/// The same on all ranks. A value; any thread.
struct Plan {
  std::size_t hosts = 1;
  std::size_t ranks = 1;  ///< in all
  std::size_t racks = 0;  ///< whose hosts sum before the switch does; 0: hosts go there themselves
  bool has_switch = false;
  double link_rate = 10;    ///< Gbit/s of a host, each way; with racks, of a rack's uplink
  double switch_rate = 12;  ///< Gbit/s that the switch takes in from all hosts together

  Way choose(const Signature& what) const;
  /// Seconds across hosts, at least. Infinite: not possible.
  double seconds(Way way, const Signature& what) const;
  /// Whether any size goes there.
  bool uses_switch() const;
  /// Why, in one sentence with the figures.
  std::string explain(const Signature& what) const;
};

}  // namespace passing::strategy
