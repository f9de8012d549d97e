// Elements of any type from exact values, independent of the library's own conversions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "passing/types.h"

namespace passing::test {

constexpr std::size_t kPeriod = 23;

/// What rank r has at i: a small integer of either sign, the same again after kPeriod elements.
inline double value_of(std::uint32_t rank, std::size_t i) {
  return static_cast<double>((rank * 7 + i * 3) % kPeriod) - 11;
}

/// `value` rounded once to `bits` bits of significand, exponents from `least` on (of the last place).
inline double rounded(double value, int bits, int least) {
  if (value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int place = std::max(exponent - bits, least);
  return std::ldexp(std::nearbyint(std::ldexp(value, -place)), place);
}

/// Bits of an IEEE value with `exponent_bits` and `fraction_bits`, for finite values in range.
inline std::uint32_t encode(double value, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int least = 1 - bias - fraction_bits;
  value = rounded(value, fraction_bits + 1, least);
  const std::uint32_t sign = std::signbit(value) ? 1U << (exponent_bits + fraction_bits) : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  --exponent;
  if (exponent < 1 - bias) return sign | static_cast<std::uint32_t>(std::ldexp(magnitude, -least));
  const double fraction = std::ldexp(magnitude, fraction_bits - exponent) - std::ldexp(1.0, fraction_bits);
  return sign | static_cast<std::uint32_t>(exponent + bias) << fraction_bits |
         static_cast<std::uint32_t>(fraction);
}

/// What such bits mean, for finite values.
inline double decode(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((1U << exponent_bits) - 1));
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp(fraction + (1U << fraction_bits), exponent - bias - fraction_bits);
  return (bits >> (exponent_bits + fraction_bits) & 1) != 0 ? -magnitude : magnitude;
}

/// Element i of a buffer; int32 is cut towards zero, as an average is.
inline void put(DataType type, void* data, std::size_t i, double value) {
  auto* at = static_cast<std::byte*>(data) + i * size_of(type);
  if (type == DataType::float32) {
    const auto v = static_cast<float>(value);
    std::memcpy(at, &v, 4);
  } else if (type == DataType::int32) {
    const auto v = static_cast<std::int32_t>(value);
    std::memcpy(at, &v, 4);
  } else {
    const auto v =
        static_cast<std::uint16_t>(type == DataType::float16 ? encode(value, 5, 10) : encode(value, 8, 7));
    std::memcpy(at, &v, 2);
  }
}

inline void fill(DataType type, void* data, std::size_t count, std::uint32_t rank) {
  for (std::size_t i = 0; i < count && i < kPeriod; ++i) put(type, data, i, value_of(rank, i));
  auto* bytes = static_cast<std::byte*>(data);
  const std::size_t period = kPeriod * size_of(type);
  for (std::size_t at = period; at < count * size_of(type); at += period)
    std::memcpy(bytes + at, bytes, std::min(period, count * size_of(type) - at));
}

/// The first element that is not the exact sum (or average) of what all ranks had; `count`: none.
inline std::size_t first_wrong(DataType type, const void* data, std::size_t count, std::uint32_t ranks,
                               bool average) {
  std::byte expected[4 * kPeriod];
  for (std::size_t i = 0; i < kPeriod; ++i) {
    double sum = 0;
    for (std::uint32_t r = 0; r < ranks; ++r) sum += value_of(r, i);
    put(type, expected, i, average ? sum / ranks : sum);
  }
  const std::size_t width = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(static_cast<const std::byte*>(data) + i * width, expected + i % kPeriod * width, width) !=
        0)
      return i;
  }
  return count;
}

}  // namespace passing::test
