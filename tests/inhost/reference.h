// What must come out, computed in the plainest way: element by element, rank by rank.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "communicator/values.h"
#include "passing/types.h"

namespace passing::test {

using Bytes = std::vector<std::byte>;

constexpr DataType kAllTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16, DataType::int32,
                                  DataType::float64, DataType::int8,    DataType::uint8,    DataType::int16,
                                  DataType::uint16,  DataType::uint32,  DataType::int64,    DataType::uint64,
                                  DataType::boolean};

inline float decode_narrow(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - bias - fraction_bits)
                               : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

/// Of any sign and many magnitudes, finite, and so that no product of 16 overflows.
inline Bytes random_input(DataType type, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 source(seed);
  Bytes data(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* at = data.data() + i * size_of(type);
    const std::uint64_t bits = source();
    const double real = std::ldexp(static_cast<double>(bits >> 12) - 0x1p51, static_cast<int>(bits & 3) - 52);
    if (type == DataType::float32) {
      const auto value = static_cast<float>(real);
      std::memcpy(at, &value, 4);
    } else if (type == DataType::float64) {
      std::memcpy(at, &real, 8);
    } else if (type == DataType::float16 || type == DataType::bfloat16) {
      put(type, data.data(), i, real);
    } else {
      std::memcpy(at, &bits, size_of(type));
      if (type == DataType::boolean) *at &= std::byte{2};
    }
  }
  return data;
}

template <class T>
T combine_plainly(Reduction reduction, T a, T b) {
  using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  switch (reduction) {
    case Reduction::sum:
    case Reduction::average: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    case Reduction::product: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case Reduction::min: return a < b ? a : b;
    case Reduction::max: return a > b ? a : b;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (reduction == Reduction::bit_and) return static_cast<T>(a & b);
    if (reduction == Reduction::bit_or) return static_cast<T>(a | b);
    return static_cast<T>(a ^ b);
  }
  return a;
}

template <class T>
void reference_of(Reduction reduction, const std::vector<Bytes>& inputs, Bytes& out) {
  for (std::size_t at = 0; at < out.size(); at += sizeof(T)) {
    T sum{};
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      T value{};
      std::memcpy(&value, inputs[r].data() + at, sizeof(T));
      sum = r == 0 ? value : combine_plainly(reduction, sum, value);
    }
    if (reduction == Reduction::average) {
      if constexpr (std::is_floating_point_v<T>) {
        sum = static_cast<T>(static_cast<double>(sum) / static_cast<double>(inputs.size()));
      } else {
        sum = static_cast<T>(
            sum /
            static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(inputs.size()));
      }
    }
    std::memcpy(out.data() + at, &sum, sizeof(T));
  }
}

inline Bytes reference(DataType type, Reduction reduction, const std::vector<Bytes>& inputs) {
  Bytes out(inputs.front().size());
  switch (type) {
    case DataType::float32: reference_of<float>(reduction, inputs, out); break;
    case DataType::float64: reference_of<double>(reduction, inputs, out); break;
    case DataType::int8: reference_of<std::int8_t>(reduction, inputs, out); break;
    case DataType::uint8: reference_of<std::uint8_t>(reduction, inputs, out); break;
    case DataType::int16: reference_of<std::int16_t>(reduction, inputs, out); break;
    case DataType::uint16: reference_of<std::uint16_t>(reduction, inputs, out); break;
    case DataType::int32: reference_of<std::int32_t>(reduction, inputs, out); break;
    case DataType::uint32: reference_of<std::uint32_t>(reduction, inputs, out); break;
    case DataType::int64: reference_of<std::int64_t>(reduction, inputs, out); break;
    case DataType::uint64: reference_of<std::uint64_t>(reduction, inputs, out); break;
    case DataType::boolean:
      for (std::size_t i = 0; i < out.size(); ++i) {
        bool truth = inputs[0][i] != std::byte{0};
        for (std::size_t r = 1; r < inputs.size(); ++r) {
          const bool other = inputs[r][i] != std::byte{0};
          const bool any =
              reduction == Reduction::sum || reduction == Reduction::max || reduction == Reduction::bit_or;
          truth = reduction == Reduction::bit_xor ? truth != other : any ? truth || other : truth && other;
        }
        out[i] = truth ? std::byte{1} : std::byte{0};
      }
      break;
    case DataType::float16:
    case DataType::bfloat16: {
      const bool half = type == DataType::float16;
      for (std::size_t i = 0; i < out.size() / 2; ++i) {
        float sum = 0;
        for (std::size_t r = 0; r < inputs.size(); ++r) {
          std::uint16_t bits = 0;
          std::memcpy(&bits, inputs[r].data() + 2 * i, 2);
          const float value = half ? decode_narrow(bits, 5, 10) : decode_narrow(bits, 8, 7);
          sum = r == 0 ? value : combine_plainly(reduction, sum, value);
        }
        double result = sum;
        if (reduction == Reduction::average) result /= static_cast<double>(inputs.size());
        put(type, out.data(), i, result);
      }
      break;
    }
  }
  return out;
}

}  // namespace passing::test
