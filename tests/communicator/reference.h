// Inputs of every type for every reduction whose exact result is known, whatever the order of ranks.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "communicator/values.h"

namespace passing::test {

inline bool is_float(DataType type) {
  return type == DataType::float32 || type == DataType::float16 || type == DataType::bfloat16 ||
         type == DataType::float64;
}

// A small integer that is exact in every type, and so are its reductions in floats.
inline std::int64_t element(std::uint32_t rank, std::size_t i, Reduction reduction, DataType type) {
  if (type == DataType::boolean) return (rank * 7 + i * 3) % 5 == 0 ? 1 : 0;
  if (reduction == Reduction::product) return 1 + static_cast<std::int64_t>((rank + i) % 2);
  const auto value = static_cast<std::int64_t>((rank * 7 + i * 3) % 23);
  return is_float(type) || reduction == Reduction::min || reduction == Reduction::max
             ? value - 11 * (is_float(type) ? 1 : 0)
             : value;
}

// As the type keeps it.
inline void store(DataType type, void* data, std::size_t i, std::int64_t value) {
  if (is_float(type) && type != DataType::float64) return put(type, data, i, static_cast<double>(value));
  auto* at = static_cast<std::byte*>(data) + i * size_of(type);
  if (type == DataType::float64) {
    const auto v = static_cast<double>(value);
    std::memcpy(at, &v, sizeof v);
  } else {
    std::memcpy(at, &value, size_of(type));  // two's complement, low bytes first
  }
}

inline std::int64_t wrapped(DataType type, std::int64_t value) {
  switch (type) {
    case DataType::int8: return static_cast<std::int8_t>(value);
    case DataType::uint8: return static_cast<std::uint8_t>(value);
    case DataType::int16: return static_cast<std::int16_t>(value);
    case DataType::uint16: return static_cast<std::uint16_t>(value);
    case DataType::int32: return static_cast<std::int32_t>(value);
    case DataType::uint32: return static_cast<std::uint32_t>(value);
    default: return value;
  }
}

inline std::int64_t reduced(DataType type, Reduction reduction, std::int64_t a, std::int64_t b) {
  if (type == DataType::boolean) {
    switch (reduction) {
      case Reduction::sum:
      case Reduction::max:
      case Reduction::bit_or: return a | b;
      case Reduction::bit_xor: return a ^ b;
      default: return a & b;
    }
  }
  switch (reduction) {
    case Reduction::sum:
    case Reduction::average: return a + b;
    case Reduction::product: return a * b;
    case Reduction::min: return std::min(a, b);
    case Reduction::max: return std::max(a, b);
    case Reduction::bit_and: return a & b;
    case Reduction::bit_or: return a | b;
    case Reduction::bit_xor: return a ^ b;
  }
  return 0;
}

inline void store_reduction(DataType type, Reduction reduction, std::uint32_t ranks, void* data,
                            std::size_t i, std::size_t element_at) {
  std::int64_t all = element(0, element_at, reduction, type);
  for (std::uint32_t r = 1; r < ranks; ++r)
    all = reduced(type, reduction, all, element(r, element_at, reduction, type));
  if (reduction != Reduction::average) return store(type, data, i, all);
  if (!is_float(type)) return store(type, data, i, wrapped(type, all) / ranks);
  const double quotient = static_cast<double>(all) / ranks;
  if (type != DataType::float64) return put(type, data, i, quotient);
  std::memcpy(static_cast<std::byte*>(data) + i * 8, &quotient, 8);
}

inline std::vector<std::byte> inputs(DataType type, Reduction reduction, std::uint32_t rank,
                                     std::size_t count, std::size_t first = 0) {
  std::vector<std::byte> data(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i)
    store(type, data.data(), i, element(rank, first + i, reduction, type));
  return data;
}

}  // namespace passing::test
