// The exact result of an operation, by integer arithmetic on bits: docs/numerics.md written a
// second time, slowly, and sharing no code with numeric/.
#pragma once

#include <cstddef>
#include <vector>

#include "rehearse/scenario.h"

namespace passing::rehearse {

/// The bytes every member must get. `inputs` holds one tensor per member.
std::vector<std::byte> exact_result(const OperationPlan& plan, std::uint32_t block_elements,
                                    std::uint32_t tree_members,
                                    const std::vector<std::vector<std::byte>>& inputs);

}  // namespace passing::rehearse
