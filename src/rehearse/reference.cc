#include "rehearse/reference.h"

#include <algorithm>
#include <cstring>

namespace passing::rehearse {
namespace {

using numeric::DataType;
using numeric::Reduction;
__extension__ using Wide = unsigned __int128;

// A float format by its numbers. Values are sign * significand * 2^exponent.
struct Format {
  int significand_bits;  // with the hidden one
  int smallest;          // exponent of the last bit of denormals
  int largest;           // exponent of the last bit of the largest numbers
  int width;
};

Format format_of(DataType type) {
  switch (type) {
    case DataType::float16: return {11, -24, 5, 16};
    case DataType::bfloat16: return {8, -133, 120, 16};
    default: return {24, -149, 104, 32};
  }
}

enum class Class : std::uint8_t { finite, nan, positive, negative };

struct Value {
  Class kind = Class::finite;
  bool negative = false;
  std::uint32_t significand = 0;
  int exponent = 0;
};

Value decode(DataType type, std::uint32_t bits) {
  const Format f = format_of(type);
  const int fraction_bits = f.significand_bits - 1;
  const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  const std::uint32_t field = (bits >> fraction_bits) & ((1U << (f.width - 1 - fraction_bits)) - 1);
  const std::uint32_t top = (1U << (f.width - 1 - fraction_bits)) - 1;
  Value v;
  v.negative = (bits >> (f.width - 1)) != 0;
  if (field == top) {
    v.kind = fraction != 0 ? Class::nan : v.negative ? Class::negative : Class::positive;
  } else if (field == 0) {
    v.significand = fraction;
    v.exponent = f.smallest;
  } else {
    v.significand = fraction | 1U << fraction_bits;
    v.exponent = f.smallest + static_cast<int>(field) - 1;
  }
  return v;
}

int bits_of(Wide x) {
  int n = 0;
  for (; x != 0; x >>= 1) ++n;
  return n;
}

// numerator / denominator, to nearest even.
Wide divide_to_even(Wide numerator, Wide denominator) {
  Wide quotient = numerator / denominator;
  const Wide twice = 2 * (numerator % denominator);
  if (twice > denominator || (twice == denominator && (quotient & 1) != 0)) ++quotient;
  return quotient;
}

// Rounds magnitude * 2^exponent / divisor once to the format.
std::uint32_t encode(DataType type, bool negative, std::uint64_t magnitude, int exponent,
                     std::uint32_t divisor) {
  const Format f = format_of(type);
  const std::uint32_t sign = negative ? 1U << (f.width - 1) : 0;
  if (magnitude == 0) return 0;
  // The exponent of the last bit: p bits of quotient, or the denormals' spacing.
  int last = exponent + bits_of(magnitude) - bits_of(divisor) - f.significand_bits;
  Wide q = 0;
  for (;; ++last) {
    last = std::max(last, f.smallest);
    const int shift = exponent - last;
    if (shift < -100) return sign;  // far below half of the smallest denormal
    q = shift >= 0 ? divide_to_even(Wide{magnitude} << shift, divisor)
                   : divide_to_even(magnitude, Wide{divisor} << -shift);
    if (bits_of(q) <= f.significand_bits) break;
    // One bit too many. A rounding that carried into a new bit is exact: divide again, coarser.
  }
  if (q == 0) return sign;
  const std::uint32_t top_field = (1U << (f.width - f.significand_bits)) - 1;
  const int fraction_bits = f.significand_bits - 1;
  const bool normal = bits_of(q) == f.significand_bits;
  const auto field = static_cast<std::uint32_t>(normal ? last - f.smallest + 1 : 0);
  if (field >= top_field) return sign | top_field << fraction_bits;
  return sign | field << fraction_bits | (static_cast<std::uint32_t>(q) & ((1U << fraction_bits) - 1));
}

std::uint32_t load(const std::vector<std::byte>& bytes, std::size_t i, std::size_t width) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width, width);
  return bits;
}

// Numerics section 2, for a finite value: max(1, biased exponent as float32), 0 for zero.
int word_of(const Value& v) {
  if (v.significand == 0) return 0;
  const int top_bit = v.exponent + bits_of(v.significand) - 1;
  return std::max(1, top_bit + 127);
}

void reduce_block(const OperationPlan& plan, std::uint32_t tree_members,
                  const std::vector<std::vector<std::byte>>& inputs, std::size_t begin, std::size_t end,
                  std::vector<std::byte>& out) {
  const std::size_t width = numeric::size_of(plan.type);
  const Format f = format_of(plan.type);
  int word = 0;
  for (const auto& input : inputs) {
    for (std::size_t i = begin; i < end; ++i) {
      const Value v = decode(plan.type, load(input, i, width));
      if (v.kind == Class::finite) word = std::max(word, word_of(v));
    }
  }
  const int s = 157 - word - bits_of(tree_members);
  const std::uint32_t divisor = plan.reduction == Reduction::average ? plan.divisor : 1;
  for (std::size_t i = begin; i < end; ++i) {
    std::int64_t sum = 0;
    bool nan = false;
    bool positive = false;
    bool negative = false;
    for (const auto& input : inputs) {
      const Value v = decode(plan.type, load(input, i, width));
      nan |= v.kind == Class::nan;
      positive |= v.kind == Class::positive;
      negative |= v.kind == Class::negative;
      if (v.kind != Class::finite || v.significand == 0) continue;
      const int shift = v.exponent + s;
      Wide q = 0;
      if (shift >= 0) {
        q = Wide{v.significand} << shift;
      } else if (shift > -60) {
        q = divide_to_even(v.significand, Wide{1} << -shift);
      }
      sum += v.negative ? -static_cast<std::int64_t>(q) : static_cast<std::int64_t>(q);
    }
    const std::uint32_t infinity = ((1U << (f.width - f.significand_bits)) - 1) << (f.significand_bits - 1);
    std::uint32_t bits = 0;
    if (nan || (positive && negative)) {
      bits = infinity | 1U << (f.significand_bits - 2);
    } else if (positive || negative) {
      bits = infinity | (negative ? 1U << (f.width - 1) : 0);
    } else if (word != 0) {
      bits = encode(plan.type, sum < 0, static_cast<std::uint64_t>(sum < 0 ? -sum : sum), -s, divisor);
    }
    std::memcpy(out.data() + i * width, &bits, width);
  }
}

}  // namespace

std::vector<std::byte> exact_result(const OperationPlan& plan, std::uint32_t block_elements,
                                    std::uint32_t tree_members,
                                    const std::vector<std::vector<std::byte>>& inputs) {
  std::vector<std::byte> out(plan.elements * numeric::size_of(plan.type));
  if (plan.type == DataType::int32) {
    for (std::size_t i = 0; i < plan.elements; ++i) {
      std::uint32_t sum = 0;
      for (const auto& input : inputs) sum += load(input, i, 4);
      auto value = static_cast<std::int32_t>(sum);
      if (plan.reduction == Reduction::average) {
        value = static_cast<std::int32_t>(std::int64_t{value} / plan.divisor);
      }
      std::memcpy(out.data() + 4 * i, &value, 4);
    }
    return out;
  }
  for (std::size_t begin = 0; begin < plan.elements; begin += block_elements) {
    reduce_block(plan, tree_members, inputs, begin,
                 std::min<std::size_t>(begin + block_elements, plan.elements), out);
  }
  return out;
}

}  // namespace passing::rehearse
