// docs/numerics.md section 7, for every table of kernels: sums and quotients are rounded once.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "communicator/values.h"
#include "numeric/kernels.h"

namespace passing::test {
namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;
};
constexpr Format kHalf{5, 10};
constexpr Format kBrain{8, 7};

double decode(std::uint16_t bits, Format format) {
  const int exponent = bits >> format.fraction_bits & ((1 << format.exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  if (exponent == (1 << format.exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - format.fraction_bits);
  return sign * std::ldexp(fraction + (1 << format.fraction_bits), exponent - bias - format.fraction_bits);
}

bool same(std::uint16_t got, double exact, Format format) {
  if (std::isnan(exact)) return std::isnan(decode(got, format));
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double rounded_value = rounded(exact, format.fraction_bits + 1, 1 - bias - format.fraction_bits);
  if (std::isinf(exact) || std::fabs(rounded_value) >= std::ldexp(1.0, bias + 1))
    return decode(got, format) == std::copysign(INFINITY, exact);
  return decode(got, format) == rounded_value &&
         (exact == 0 || std::signbit(decode(got, format)) == std::signbit(exact));
}

class Reduce : public testing::TestWithParam<const numeric::Kernels*> {};

TEST_P(Reduce, NarrowSums) {
  const numeric::Kernels& k = *GetParam();
  std::mt19937 source(1);
  constexpr std::size_t kCount = 100'001;
  std::vector<std::uint16_t> a(kCount);
  std::vector<std::uint16_t> b(kCount);
  std::vector<std::uint16_t> out(kCount);
  for (const Format format : {kHalf, kBrain}) {
    for (std::size_t i = 0; i < kCount; ++i) {
      a[i] = static_cast<std::uint16_t>(source());
      // Near cancellation is where roundings show.
      b[i] = i % 2 == 0 ? static_cast<std::uint16_t>(source())
                        : static_cast<std::uint16_t>((a[i] ^ 0x8000) + source() % 4096);
    }
    k.combine[static_cast<int>(format.exponent_bits == 5 ? DataType::float16 : DataType::bfloat16)][1](
        a.data(), b.data(), kCount, out.data());
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_TRUE(same(out[i], decode(a[i], format) + decode(b[i], format), format))
          << a[i] << " " << b[i] << " " << out[i];
    for (const double divisor : {2.0, 3.0, 7.0, 13.0, 1000.0, 65535.0}) {
      k.divide[static_cast<int>(format.exponent_bits == 5 ? DataType::float16 : DataType::bfloat16)](
          a.data(), kCount, static_cast<std::uint64_t>(divisor), out.data());
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_TRUE(same(out[i], decode(a[i], format) / divisor, format))
            << a[i] << " / " << divisor << ": " << out[i];
    }
  }
}

TEST_P(Reduce, WideSums) {
  const numeric::Kernels& k = *GetParam();
  std::mt19937 source(2);
  constexpr std::size_t kCount = 100'003;
  std::vector<std::uint32_t> a(kCount);
  std::vector<std::uint32_t> b(kCount);
  std::vector<std::uint32_t> out(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<std::uint32_t>(source());
    b[i] = static_cast<std::uint32_t>(source());
  }
  k.combine[1][1](a.data(), b.data(), kCount, out.data());
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto x = std::bit_cast<float>(a[i]);
    const float sum = x + std::bit_cast<float>(b[i]);
    if (std::isnan(sum)) {
      ASSERT_TRUE(std::isnan(std::bit_cast<float>(out[i])));
    } else {
      ASSERT_EQ(std::bit_cast<float>(out[i]), sum);
    }
  }
  k.combine[4][1](a.data(), b.data(), kCount, a.data());  // in place
  for (std::size_t i = 0; i < kCount; ++i) b[i] = a[i];
  k.divide_i32(a.data(), kCount, 7, out.data());
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(static_cast<std::int32_t>(out[i]), static_cast<std::int32_t>(b[i]) / 7);
}

INSTANTIATE_TEST_SUITE_P(Tables, Reduce,
                         testing::ValuesIn(numeric::all_kernels().begin(), numeric::all_kernels().end()),
                         [](const auto& each) { return each.param->name; });

}  // namespace
}  // namespace passing::test
