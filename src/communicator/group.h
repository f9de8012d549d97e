// What a group of ranks consists of, once it has been founded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/control.h"
#include "inhost/host.h"
#include "net/carrier.h"
#include "passing/config.h"
#include "strategy/strategy.h"

namespace passing {

/// One rank's. Founding fills it, the parts of Core use it, Farewell empties it. Owned by one thread at a
/// time.
struct Group {
  /// To begin is an operation, too, or two: the judge counts them.
  static constexpr std::uint64_t kFoundingSteps = 2;

  Config config;
  std::string host_name;               // of the host, or its label
  std::vector<std::string> names;      // of the ranks, then of servers
  std::optional<strategy::Plan> plan;  // of the strategy auto

  strategy::Ground ground;
  std::unique_ptr<net::Carrier> carrier;  // for data; none in a group of one
  std::unique_ptr<Control> control;       // the same
  std::shared_ptr<inhost::Host> host;     // none without neighbours; what it allocates lives as long as this
  std::unique_ptr<strategy::Strategy> strategy;
  std::vector<bool> left;  // nothing more comes from it, by rank

  const std::string& own_name() const { return names[config.rank]; }
  /// As errors name them.
  static std::uint16_t id(std::uint32_t rank) { return static_cast<std::uint16_t>(rank); }
  std::uint16_t own_id() const { return id(config.rank); }
};

}  // namespace passing
