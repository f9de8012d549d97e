// Sums from rank to rank: docs/numerics.md section 7.
#pragma once

#include <cstddef>
#include <cstdint>

#include "passing/types.h"

namespace passing::strategy {

/// out = a + b, element by element, rounded to the type. Any of the three may be the same.
void add(DataType type, const void* a, const void* b, std::size_t count, void* out);
/// What is left to do with a whole sum over `ranks`: divides it for an average.
void finish(DataType type, Reduction reduction, std::uint32_t ranks, void* data, std::size_t count);

}  // namespace passing::strategy
