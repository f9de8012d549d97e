#include "rehearse/inputs.h"

#include <bit>
#include <cstring>

#include "rehearse/random.h"

namespace passing::rehearse {
namespace {

using numeric::DataType;

// Exponent and significand bits of the float types.
struct Layout {
  int exponent;
  int significand;
};

Layout layout_of(DataType type) {
  switch (type) {
    case DataType::float16: return {5, 10};
    case DataType::bfloat16: return {8, 7};
    default: return {8, 23};
  }
}

std::uint32_t random_float(const OperationPlan& plan, Random& random) {
  const Layout layout = layout_of(plan.type);
  const std::uint32_t top = (1U << layout.exponent) - 1;  // Inf and NaN
  const std::uint32_t bias = top / 2;
  const auto sign = static_cast<std::uint32_t>(random.below(2)) << (layout.exponent + layout.significand);
  const auto fraction = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << layout.significand));
  const auto with_exponent = [&](std::uint64_t exponent) {
    return sign | static_cast<std::uint32_t>(exponent) << layout.significand | fraction;
  };
  switch (plan.pattern) {
    case Pattern::zeros: return sign;
    case Pattern::denormals: return with_exponent(random.below(2));
    case Pattern::huge: return with_exponent(top - 1 - random.below(2));
    case Pattern::magnitudes: return with_exponent(random.below(top));
    case Pattern::raw_bits: return with_exponent(random.below(top + 1));
    case Pattern::sprinkled:
      if (random.chance(0.02))
        return sign | top << layout.significand | (fraction & -static_cast<std::uint32_t>(random.below(2)));
      [[fallthrough]];
    case Pattern::gradients: return with_exponent(bias - 12 + random.below(10));
  }
  return 0;
}

}  // namespace

std::vector<std::byte> make_input(const OperationPlan& plan, std::uint64_t seed, std::uint16_t member) {
  Random random(seed * 1'000'003 + member);
  const std::size_t width = numeric::size_of(plan.type);
  std::vector<std::byte> bytes(plan.elements * width);
  // Whole stretches of zeros exercise blocks without a word; members differ in where.
  bool zero_stretch = false;
  for (std::size_t i = 0; i < plan.elements; ++i) {
    if (random.chance(0.01)) zero_stretch = random.chance(0.3);
    std::uint32_t bits = 0;
    if (plan.type == DataType::int32) {
      bits = static_cast<std::uint32_t>(random.next());
    } else if (!zero_stretch) {
      bits = random_float(plan, random);
    }
    std::memcpy(bytes.data() + i * width, &bits, width);  // little-endian: the low bytes
  }
  static_assert(std::endian::native == std::endian::little);
  return bytes;
}

}  // namespace passing::rehearse
