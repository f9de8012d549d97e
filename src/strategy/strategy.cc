#include "strategy/strategy.h"

#include <fmt/format.h>

namespace passing::strategy {

bool shares_memory(const std::string& name) {
  return name == "auto" || name == "passing" || name == "ring_hierarchical" || name == "ps_hierarchical";
}

bool needs_hosts(const std::string& name) { return shares_memory(name) || name == "ps_sharded"; }

Expected<std::unique_ptr<Strategy>> make_strategy(const std::string& name, const Setup& setup) {
  if (name == "ring") return make_ring();
  if (name == "halving_doubling") return make_halving_doubling();
  if (name == "in_network") return make_in_network(setup);
  if (name == "passing" || name == "auto") return make_passing(setup);
  if (name == "ring_hierarchical") return make_ring_hierarchical(setup);
  if (name == "ps") return make_ps(setup);
  if (name == "ps_hierarchical") return make_ps_hierarchical(setup);
  if (name == "ps_sharded") return make_ps_sharded(setup);
  return fail(ErrorCode::invalid_argument,
              fmt::format("strategy is '{}': must be one of {}", name, fmt::join(strategies(), ", ")));
}

}  // namespace passing::strategy
