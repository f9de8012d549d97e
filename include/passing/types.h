// What elements are and how they are combined.
#pragma once

#include <cstddef>
#include <cstdint>

#include "passing/export.h"

namespace passing {

enum class DataType : std::uint8_t { float32 = 1, float16 = 2, bfloat16 = 3, int32 = 4 };

enum class Reduction : std::uint8_t { sum = 1, average = 2 };

PASSING_API const char* to_string(DataType type);
PASSING_API const char* to_string(Reduction reduction);
/// Bytes of one element; 0: no such type.
PASSING_API std::size_t size_of(DataType type);

}  // namespace passing
