// Reductions from rank to rank: docs/numerics.md sections 7 and 8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "passing/types.h"

namespace passing::strategy {

/// Where an all-reduce of this type and reduction can be done: the table of docs/numerics.md section 8.
enum class Route : std::uint8_t { none, ranks, network };
Route route(DataType type, Reduction reduction);

/// out = a op b, element by element, rounded to the type. Any of the three may be the same.
void combine(DataType type, Reduction reduction, const void* a, const void* b, std::size_t count, void* out);
/// What is left to do with a whole reduction over `ranks`: divides the sum for an average.
void finish(DataType type, Reduction reduction, std::uint32_t ranks, void* data, std::size_t count);

/// The same for sums of hosts, which are float32 for narrow floats: `out` gets the type. They may be the same
/// where the types are.
void finish_host_sums(DataType type, Reduction reduction, std::uint32_t ranks, const void* sums,
                      std::size_t count, void* out);

}  // namespace passing::strategy
