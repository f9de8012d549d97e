// What a strategy moves over the busiest link of each kind, and its latency: docs/simulation.md 1.1 to 1.4.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "simulate/layout.h"

namespace passing::simulate {

enum class Kind { bus, host_up, host_down, rack_up, rack_down, server_up, server_down, slots, ingest };
constexpr std::size_t kKinds = 9;

/// One step of an all-reduce: all of its loads at once, then the latency.
struct LoadStep {
  std::array<double, kKinds> tensors{};  ///< on the wire: headers and efficiency counted, but on the bus
  double latency = 0;

  double& operator[](Kind kind) { return tensors[static_cast<std::size_t>(kind)]; }
  double operator[](Kind kind) const { return tensors[static_cast<std::size_t>(kind)]; }
};

/// Up to so many bytes halving_doubling exchanges all there is in every step, as the library does.
constexpr double kWholeBytes = 8192;

/// Bytes on the wire for a byte of tensor.
double wire_factor(const Strategy& strategy, const Cluster& cluster);
/// The same between hosts, whatever the strategy.
double mesh_factor(const Cluster& cluster);
/// Bytes per second of a link; of the straggler's host, if it has one. Infinite: there is no such limit.
double rate_of(Kind kind, const Strategy& strategy, const Layout& layout, unsigned jobs);

std::vector<LoadStep> loads_of(const Strategy& strategy, const Layout& layout, bool small);

/// One message of halving_doubling.
using Exchange = std::function<void(unsigned from, unsigned to, double tensors)>;
/// How many steps it has, and the messages of one of them, rank by rank.
unsigned halving_steps(unsigned ranks, bool small);
void halving_messages(unsigned ranks, unsigned step, bool small, const Exchange& take);

}  // namespace passing::simulate
