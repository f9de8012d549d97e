// Tensors to sum, from a seed.
#pragma once

#include <cstddef>
#include <vector>

#include "rehearse/scenario.h"

namespace passing::rehearse {

/// The bytes of one member's tensor for one operation.
std::vector<std::byte> make_input(const OperationPlan& plan, std::uint64_t seed, std::uint16_t member);

}  // namespace passing::rehearse
