// The data types and reductions of docs/numerics.md section 1; the values are the wire codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace passing::numeric {

enum class DataType : std::uint8_t { none = 0, float32 = 1, float16 = 2, bfloat16 = 3, int32 = 4 };
enum class Reduction : std::uint8_t { sum = 1, average = 2 };

/// Averages divide by at most this (numerics.md section 5: one rounding).
constexpr std::uint32_t kMaxDivisor = (1U << 22) - 1;

constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::none: return 0;
    case DataType::float16:
    case DataType::bfloat16: return 2;
    case DataType::float32:
    case DataType::int32: return 4;
  }
  return 0;
}

constexpr bool is_float(DataType type) {
  return type == DataType::float32 || type == DataType::float16 || type == DataType::bfloat16;
}

const char* to_string(DataType type);
const char* to_string(Reduction reduction);

}  // namespace passing::numeric
