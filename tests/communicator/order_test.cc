// docs/numerics.md section 7: the order of sums, bit for bit, whatever the chunks; and the same bits again.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "communicator/world.h"

namespace passing::test {
namespace {

constexpr std::uint32_t kRanks = 5;
// A chunk of a parameter server is 64 KB: below, at and above one; several for each server; odd.
constexpr std::size_t kSizes[] = {1, 2, 7, 16'383, 16'384, 16'385, 32'769, 400'003};
constexpr std::size_t kMost = 400'003;

using Tensor = std::vector<float>;
using Inputs = std::vector<Tensor>;

// Of very different magnitudes, so that hardly any two orders of adding give the same.
Inputs make_inputs() {
  Inputs inputs(kRanks, Tensor(kMost));
  std::mt19937 source(11);
  for (Tensor& each : inputs) {
    for (float& value : each)
      value = std::ldexp(static_cast<float>(static_cast<int>(source() >> 8)) - 8e6F,
                         static_cast<int>(source() % 24) - 30);
    each[6] = 1e-45F;  // denormals count
  }
  inputs[1][0] = inputs[4][200'000] = INFINITY;
  inputs[2][0] = -INFINITY;
  inputs[3][300'000] = NAN;
  return inputs;
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

struct Case {
  std::string strategy;
  std::vector<std::string> hosts;  // by rank
  float (*sum)(const float* x);    // of one element of each rank
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.strategy; }

class Orders : public testing::TestWithParam<Case> {};

TEST_P(Orders, OfSums) {
  const Case& expected = GetParam();
  const Inputs inputs = make_inputs();
  // In the order of the ranks and backwards: that the values tell orders apart.
  std::size_t telling = 0;
  for (std::size_t i = 0; i < kMost; ++i) {
    float x[kRanks];
    float backwards[kRanks];
    for (std::uint32_t r = 0; r < kRanks; ++r) x[r] = backwards[kRanks - 1 - r] = inputs[r][i];
    if (!same_bits(expected.sum(x), expected.sum(backwards))) ++telling;
  }
  EXPECT_GT(telling, kMost / 10);

  World world(expected.strategy, kRanks, [&](Config& config) { config.host = expected.hosts[config.rank]; });
  if (HasFatalFailure()) return;
  world.run([&](Communicator& comm) {
    const Tensor& input = inputs[comm.rank()];
    for (const std::size_t count : kSizes) {
      for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
        Tensor output(count);
        auto ended = comm.all_reduce(input.data(), output.data(), count, DataType::float32, reduction).wait();
        ASSERT_TRUE(ended) << ended.error().message;
        for (std::size_t i = 0; i < count; ++i) {
          float x[kRanks];
          for (std::uint32_t r = 0; r < kRanks; ++r) x[r] = inputs[r][i];
          const float sum = expected.sum(x);
          const float right = reduction == Reduction::sum ? sum : static_cast<float>(double{sum} / kRanks);
          ASSERT_TRUE(same_bits(output[i], right))
              << "element " << i << " of " << count << ": " << output[i] << ", not " << right;
        }
        // Again, and in place.
        Tensor again(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(count));
        ended = comm.all_reduce(again.data(), again.data(), count, DataType::float32, reduction).wait();
        ASSERT_TRUE(ended) << ended.error().message;
        for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(same_bits(output[i], again[i])) << i;
      }
    }
  });
}

float in_order_of_rank(const float* x) { return (((x[0] + x[1]) + x[2]) + x[3]) + x[4]; }

const std::vector<std::string> kPairs = {"a", "a", "b", "b", "c"};
// The label that comes first does not have the lowest rank, and hosts are interleaved.
const std::vector<std::string> kMixed = {"z", "a", "z", "m", "a"};

INSTANTIATE_TEST_SUITE_P(
    Strategies, Orders,
    testing::Values(Case{"ps", kPairs, in_order_of_rank}, Case{"ps_sharded", kPairs, in_order_of_rank},
                    Case{"ps_sharded", kMixed, in_order_of_rank},
                    Case{"ps_hierarchical", kPairs,
                         [](const float* x) { return ((x[0] + x[1]) + (x[2] + x[3])) + x[4]; }},
                    Case{"ps_hierarchical", kMixed,
                         [](const float* x) { return ((x[0] + x[2]) + (x[1] + x[4])) + x[3]; }},
                    Case{"halving_doubling", kMixed,
                         [](const float* x) { return ((x[0] + x[1]) + x[3]) + (x[2] + x[4]); }}),
    [](const auto& each) {
      return each.param.strategy + (each.param.hosts == kMixed ? "_mixed_hosts" : "");
    });

}  // namespace
}  // namespace passing::test
