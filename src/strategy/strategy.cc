#include "strategy/strategy.h"

#include <fmt/format.h>

namespace passing::strategy {

Expected<std::unique_ptr<Strategy>> make_strategy(const std::string& name, const Setup& setup) {
  if (name == "ring") return make_ring();
  if (name == "in_network") return make_in_network(setup);
  return fail(ErrorCode::invalid_argument,
              fmt::format("strategy is '{}': must be one of {}", name, fmt::join(strategies(), ", ")));
}

}  // namespace passing::strategy
