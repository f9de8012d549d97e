// docs/numerics.md, against rehearse/reference.cc, which computes with integers only.
#include "numeric/codec.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "rehearse/inputs.h"
#include "rehearse/random.h"
#include "rehearse/reference.h"
#include "wire/wire.h"

namespace passing::numeric {
namespace {

using rehearse::OperationPlan;
using rehearse::Pattern;
using Tensor = std::vector<std::byte>;

constexpr std::size_t kBlock = PASSING_BLOCK_ELEMENTS;

// One block through the codec as protocol and switch would take it: words, classes, sums.
void reduce_block(const Codec& codec, const OperationPlan& plan, const std::vector<Tensor>& inputs,
                  std::size_t begin, std::size_t n, Tensor& out) {
  const std::size_t width = size_of(plan.type);
  std::uint16_t word = 0;
  for (const Tensor& in : inputs) {
    word = std::max(word, codec.block_word(plan.type, in.data() + begin * width, n));
  }
  const bool nonfinite = word == PASSING_WORD_NONFINITE;
  if (nonfinite) {
    word = 0;
    for (const Tensor& in : inputs) {
      word = std::max(word, codec.finite_word(plan.type, in.data() + begin * width, n));
    }
  }
  std::vector<std::int32_t> sums(n, 0);
  std::vector<std::int32_t> classes(n, 0);
  std::vector<std::int32_t> part(n);
  for (const Tensor& in : inputs) {
    const std::byte* data = in.data() + begin * width;
    if (nonfinite) {
      Codec::classify(plan.type, data, n, part.data());
      codec.kernels().add_i32(classes.data(), part.data(), n);
      codec.quantise_finite(plan.type, data, n, word, part.data());
    } else {
      codec.quantise(plan.type, data, n, word, part.data());
    }
    codec.kernels().add_i32(sums.data(), part.data(), n);
  }
  std::byte* result = out.data() + begin * width;
  codec.dequantise(plan.type, plan.reduction, plan.divisor, sums.data(), n, word, result);
  if (nonfinite) Codec::apply_classes(plan.type, classes.data(), n, result);
}

Tensor reduce(const Codec& codec, const OperationPlan& plan, const std::vector<Tensor>& inputs) {
  Tensor out(plan.elements * size_of(plan.type), std::byte{0xEE});
  for (std::size_t begin = 0; begin < plan.elements; begin += kBlock) {
    reduce_block(codec, plan, inputs, begin, std::min(kBlock, plan.elements - begin), out);
  }
  return out;
}

std::vector<Tensor> inputs_of(const OperationPlan& plan, std::uint64_t seed, unsigned members) {
  std::vector<Tensor> inputs;
  for (unsigned m = 0; m < members; ++m) {
    inputs.push_back(rehearse::make_input(plan, seed, static_cast<std::uint16_t>(m)));
  }
  return inputs;
}

std::uint32_t bits_at(const Tensor& tensor, DataType type, std::size_t i) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, tensor.data() + i * size_of(type), size_of(type));
  return bits;
}

constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16, DataType::int32};

class EveryInstructionSet : public testing::TestWithParam<const Kernels*> {};
INSTANTIATE_TEST_SUITE_P(Kernels, EveryInstructionSet,
                         testing::ValuesIn(all_kernels().begin(), all_kernels().end()),
                         [](const auto& param) { return std::string(param.param->name); });

// Sections 2 to 5, all types, patterns and reductions, 1 to 1023 members.
TEST_P(EveryInstructionSet, EqualsTheExactReferenceBitForBit) {
  unsigned cases = 0;
  for (const unsigned members : {1U, 2U, 3U, 4U, 7U, 8U, 16U, 127U, 128U, 129U, 1023U}) {
    const Codec codec(members, *GetParam());
    for (const DataType type : kTypes) {
      for (int pattern = 0; pattern < 7; ++pattern) {
        for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
          const OperationPlan plan{.type = type,
                                   .reduction = reduction,
                                   .elements = members > 100 ? 70U : 2112U + 57U,
                                   .divisor = members * 3,
                                   .pattern = static_cast<Pattern>(pattern)};
          const auto inputs = inputs_of(plan, members * 100 + pattern, members);
          const Tensor expected = rehearse::exact_result(plan, kBlock, members, inputs);
          const Tensor got = reduce(codec, plan, inputs);
          for (std::size_t i = 0; i < plan.elements; ++i) {
            ASSERT_EQ(bits_at(got, type, i), bits_at(expected, type, i))
                << to_string(type) << " " << to_string(reduction) << " pattern " << pattern << ", " << members
                << " members, element " << i;
          }
          ++cases;
        }
      }
    }
  }
  EXPECT_EQ(cases, 11U * 4 * 7 * 2);
}

// Section 3: no overflow, at the worst case: all members hold the largest value of the block.
TEST_P(EveryInstructionSet, Section3SumsOfTheLargestValuesDoNotOverflow) {
  for (unsigned members = 1; members <= 1023; members = members < 20 ? members + 1 : members * 2 + 1) {
    const Codec codec(members, *GetParam());
    for (const float largest :
         {0x1.fffffep127F, 0x1.fffffep0F, 0x1p-149F, 0x1.fffffcp-127F, -0x1.fffffep5F}) {
      const std::uint16_t word = codec.block_word(DataType::float32, &largest, 1);
      std::int32_t q = 0;
      codec.quantise(DataType::float32, &largest, 1, word, &q);
      const std::int64_t sum = std::int64_t{q} * members;
      EXPECT_LE(std::abs(sum), INT32_MAX) << members << " x " << largest;
      if (word > 1) {
        EXPECT_GE(std::abs(sum), 1 << 29) << members << " x " << largest;
      }
    }
  }
}

// Section 3: a buffer that changes under way cannot overflow either.
TEST_P(EveryInstructionSet, Section3ValuesAboveTheScaleAreClamped) {
  const Codec codec(4, *GetParam());
  const float values[] = {1e30F, -1e30F, NAN, INFINITY, -INFINITY, 1.0F};
  std::int32_t q[6];
  codec.quantise(DataType::float32, values, 6, 127, q);
  EXPECT_EQ(q[0], 1 << 28);
  EXPECT_EQ(q[1], -(1 << 28));
  EXPECT_LE(std::abs(q[2]), 1 << 28);
  EXPECT_EQ(q[3], 1 << 28);
  EXPECT_EQ(q[4], -(1 << 28));
  EXPECT_EQ(q[5], 1 << 27);
}

// A switch that cannot add must not lead to undefined behaviour.
TEST_P(EveryInstructionSet, Section5SumsThatCannotBeAreCut) {
  const Codec codec(4, *GetParam());
  const std::int32_t sums[] = {INT32_MAX, INT32_MIN, INT32_MAX - 1, INT32_MIN + 1};
  for (const DataType type : kTypes) {
    for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
      float out[4] = {};
      codec.dequantise(type, reduction, 3, sums, 4, 100, out);
    }
  }
}

// Section 1: whatever mode the calling thread is in, and it is put back.
TEST_P(EveryInstructionSet, Section1TheCallersFloatModeChangesNothing) {
  const Codec codec(3, *GetParam());
  for (const Pattern pattern : {Pattern::denormals, Pattern::gradients, Pattern::magnitudes}) {
    const OperationPlan plan{
        .reduction = Reduction::average, .elements = 500, .divisor = 3, .pattern = pattern};
    const auto inputs = inputs_of(plan, 5, 3);
    const Tensor plain = reduce(codec, plan, inputs);
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040 | 0x6000);  // flush denormals, round towards zero
    const Tensor flushed = reduce(codec, plan, inputs);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    EXPECT_EQ(plain, flushed);
    EXPECT_EQ(after & 0xE040U, 0xE040U & (saved | 0xE040U));
  }
}

TEST(Codec, AllInstructionSetsGiveTheSameBits) {
  for (const DataType type : kTypes) {
    for (int pattern = 0; pattern < 7; ++pattern) {
      const OperationPlan plan{.type = type,
                               .reduction = Reduction::average,
                               .elements = 5000,
                               .divisor = 7,
                               .pattern = static_cast<Pattern>(pattern)};
      const auto inputs = inputs_of(plan, 77, 5);
      const Tensor first = reduce(Codec(5, *all_kernels()[0]), plan, inputs);
      for (const Kernels* each : all_kernels())
        EXPECT_EQ(reduce(Codec(5, *each), plan, inputs), first) << each->name;
    }
  }
}

// Section 2, the table.
TEST(Codec, Section2WordsOfSingleValues) {
  const Codec codec(2);
  const auto word = [&](float value) { return codec.block_word(DataType::float32, &value, 1); };
  EXPECT_EQ(word(0.0F), PASSING_WORD_NONE);
  EXPECT_EQ(word(-0.0F), PASSING_WORD_NONE);
  EXPECT_EQ(word(1.0F), 127);
  EXPECT_EQ(word(-1.99F), 127);
  EXPECT_EQ(word(0x1p-149F), 1);
  EXPECT_EQ(word(0x1p-126F), 1);
  EXPECT_EQ(word(0x1.fffffep127F), 254);
  EXPECT_EQ(word(INFINITY), PASSING_WORD_NONFINITE);
  EXPECT_EQ(word(-INFINITY), PASSING_WORD_NONFINITE);
  EXPECT_EQ(word(NAN), PASSING_WORD_NONFINITE);
  EXPECT_EQ(codec.block_word(DataType::float32, nullptr, 0), PASSING_WORD_NONE);
  const std::uint16_t smallest_half = 1;  // 2^-24
  EXPECT_EQ(codec.block_word(DataType::float16, &smallest_half, 1), 103);
  const std::int32_t large = INT32_MIN;
  EXPECT_EQ(codec.block_word(DataType::int32, &large, 1), PASSING_WORD_NONE);
}

TEST(Codec, Section2EveryHalfHasTheWordOfItsFloat) {
  const Codec codec(1);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    std::int32_t q = 0;
    const std::uint16_t word = codec.block_word(DataType::float16, &half, 1);
    if (word == PASSING_WORD_NONFINITE) {
      EXPECT_EQ(bits & 0x7C00, 0x7C00U);
      continue;
    }
    // One member and 30 bits: every half comes back as it was, but for the sign of zero.
    codec.quantise(DataType::float16, &half, 1, word, &q);
    std::uint16_t back = 0;
    codec.dequantise(DataType::float16, Reduction::sum, 1, &q, 1, word, &back);
    EXPECT_EQ(back, bits == 0x8000 ? 0 : bits);
  }
}

// Section 4: one NaN or Inf per block leaves every other element's bits as with 0 in its place.
TEST(Codec, Section4ANonFiniteElementChangesOnlyItself) {
  rehearse::Random random(4);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    const std::uint32_t infinity = type == DataType::float32   ? 0x7F800000
                                   : type == DataType::float16 ? 0x7C00
                                                               : 0x7F80;
    const std::uint32_t sign = type == DataType::float32 ? 0x80000000 : 0x8000;
    for (const std::uint32_t special : {infinity, infinity | sign, infinity | 1, infinity | sign | 3}) {
      const OperationPlan plan{.type = type, .elements = 3 * kBlock - 5, .pattern = Pattern::magnitudes};
      auto with = inputs_of(plan, random.next(), 3);
      auto without = with;
      std::vector<std::size_t> places;
      for (std::size_t block = 0; block < 3; ++block) {
        const std::size_t i = std::min<std::size_t>(block * kBlock + random.below(kBlock), plan.elements - 1);
        const std::size_t member = random.below(3);
        std::memcpy(&with[member][i * size_of(type)], &special, size_of(type));
        const std::uint32_t zero = 0;
        std::memcpy(&without[member][i * size_of(type)], &zero, size_of(type));
        places.push_back(i);
      }
      const Codec codec(3);
      const Tensor got = reduce(codec, plan, with);
      const Tensor clean = reduce(codec, plan, without);
      for (std::size_t i = 0; i < plan.elements; ++i) {
        if (std::find(places.begin(), places.end(), i) == places.end()) {
          ASSERT_EQ(bits_at(got, type, i), bits_at(clean, type, i));
        } else {
          EXPECT_GE(bits_at(got, type, i) & ~sign, infinity);
        }
      }
    }
  }
}

TEST(Codec, Section4InfinitiesAndNanCombineAsIeeeAdditionDoes) {
  const Codec codec(2);
  const OperationPlan plan{.elements = 5};
  const auto tensor = [](std::initializer_list<float> values) {
    Tensor bytes(4 * values.size());
    std::memcpy(bytes.data(), std::data(values), bytes.size());
    return bytes;
  };
  const Tensor got = reduce(
      codec, plan,
      {tensor({INFINITY, INFINITY, -INFINITY, NAN, 1}), tensor({1, -INFINITY, -INFINITY, INFINITY, 2})});
  EXPECT_EQ(bits_at(got, DataType::float32, 0), 0x7F800000U);
  EXPECT_EQ(bits_at(got, DataType::float32, 1), 0x7FC00000U);
  EXPECT_EQ(bits_at(got, DataType::float32, 2), 0xFF800000U);
  EXPECT_EQ(bits_at(got, DataType::float32, 3), 0x7FC00000U);
  EXPECT_EQ(bits_at(got, DataType::float32, 4), std::bit_cast<std::uint32_t>(3.0F));
}

TEST(Codec, Section4CountsOf1023MembersDoNotCarry) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    std::int32_t sum = 0;
    for (int m = 0; m < 1023; ++m) {
      std::int32_t one = 0;
      Codec::classify(DataType::float32, &value, 1, &one);
      sum += one;
    }
    float out = 5;
    Codec::apply_classes(DataType::float32, &sum, 1, &out);
    EXPECT_EQ(std::isnan(out), std::isnan(value));
    if (!std::isnan(value)) {
      EXPECT_EQ(out, value);
    }
  }
}

TEST(Codec, Section5SignedZerosAndOverflow) {
  const Codec codec(2);
  const auto sum = [&](float a, float b) {
    Tensor x(4);
    Tensor y(4);
    std::memcpy(x.data(), &a, 4);
    std::memcpy(y.data(), &b, 4);
    return bits_at(reduce(codec, {.elements = 1}, {x, y}), DataType::float32, 0);
  };
  EXPECT_EQ(sum(-0.0F, -0.0F), 0U) << "+0";
  EXPECT_EQ(sum(1.0F, -1.0F), 0U) << "+0";
  EXPECT_EQ(sum(0x1.fffffep127F, 0x1.fffffep127F), 0x7F800000U) << "+Inf";
  EXPECT_EQ(sum(-0x1.fffffep127F, -0x1.fffffep127F), 0xFF800000U) << "-Inf";
  EXPECT_EQ(sum(0x1p-149F, 0x1p-149F), 2U) << "denormals are summed";
}

TEST(Codec, Section1Int32WrapsAndItsAverageTruncates) {
  const Codec codec(3);
  OperationPlan plan{.type = DataType::int32, .reduction = Reduction::average, .elements = 3, .divisor = 3};
  const auto tensor = [](std::initializer_list<std::int32_t> values) {
    Tensor bytes(4 * values.size());
    std::memcpy(bytes.data(), std::data(values), bytes.size());
    return bytes;
  };
  const std::vector<Tensor> inputs = {tensor({-1, 2, INT32_MAX}), tensor({-1, 2, 1}), tensor({-3, 1, 0})};
  EXPECT_EQ(reduce(codec, plan, inputs), tensor({-1, 1, INT32_MIN / 3}));
  plan.reduction = Reduction::sum;
  EXPECT_EQ(reduce(codec, plan, inputs), tensor({-5, 5, INT32_MIN}));
}

// Section 6: the bound itself, against sums that are exact in long double.
TEST(Codec, Section6ErrorBoundHolds) {
  rehearse::Random random(6);
  for (const unsigned members : {1U, 2U, 5U, 33U, 200U, 1023U}) {
    const Codec codec(members);
    const OperationPlan plan{.elements = 300};
    const auto inputs = inputs_of(plan, random.next(), members);
    std::uint16_t word = 0;
    for (const Tensor& in : inputs)
      word = std::max(word, codec.block_word(plan.type, in.data(), plan.elements));
    const int s = 157 - word - static_cast<int>(std::bit_width(members));
    const Tensor got = reduce(codec, plan, inputs);
    for (std::size_t i = 0; i < plan.elements; ++i) {
      long double exact = 0;
      for (const Tensor& in : inputs) exact += std::bit_cast<float>(bits_at(in, plan.type, i));
      const auto result = std::bit_cast<float>(bits_at(got, plan.type, i));
      const float ulp = std::nextafter(std::fabs(result), INFINITY) - std::fabs(result);
      const long double bound = members * std::ldexp(0.5L, -s) + ulp / 2.0L;
      EXPECT_LE(std::fabs(static_cast<long double>(result) - exact), bound) << members << " members";
    }
  }
}

}  // namespace
}  // namespace passing::numeric
