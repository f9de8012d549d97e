// What elements are and how they are combined.
#pragma once

#include <cstddef>
#include <cstdint>

#include "passing/export.h"

namespace passing {

enum class DataType : std::uint8_t {
  float32 = 1,
  float16 = 2,
  bfloat16 = 3,
  int32 = 4,
  float64 = 5,
  int8 = 6,
  uint8 = 7,
  int16 = 8,
  uint16 = 9,
  uint32 = 10,
  int64 = 11,
  uint64 = 12,
  boolean = 13,  ///< a byte: 0 is false, anything else true; results are 0 or 1
};

/// Which of them a type can do, and where: the table in docs/numerics.md section 8.
enum class Reduction : std::uint8_t {
  sum = 1,
  average = 2,
  product = 3,
  min = 4,
  max = 5,
  bit_and = 6,
  bit_or = 7,
  bit_xor = 8,
};

constexpr std::size_t kDataTypes = 13;
constexpr std::size_t kReductions = 8;

PASSING_API const char* to_string(DataType type);
PASSING_API const char* to_string(Reduction reduction);
/// Bytes of one element; 0: no such type.
PASSING_API std::size_t size_of(DataType type);

}  // namespace passing
