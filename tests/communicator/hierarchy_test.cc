// Strategies that sum in the host first, over hosts of every shape, against exact references.
#include <gtest/gtest.h>

#include <atomic>

#include "communicator/layout.h"
#include "communicator/reference.h"
#include "strategy/reduce.h"

namespace passing::test {
namespace {

constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16, DataType::int32,
                               DataType::float64, DataType::int8,    DataType::boolean};
constexpr Reduction kUsual[] = {Reduction::sum, Reduction::average, Reduction::min, Reduction::max,
                                Reduction::product};
// After so many elements inputs and results are the same again.
constexpr std::size_t kRepeats = 23 * 5 * 2;

// Blocks; and 16 KB, up to which everyone in a host sums everything. Large ones only where they differ in
// more than the kernel.
std::vector<std::size_t> sizes_of(DataType type, Reduction reduction) {
  const std::size_t border = (16 << 10) / size_of(type);
  std::vector<std::size_t> sizes = {0, 1, 2, 2111, 2112, 2113, border - 1, border, border + 1};
  if (reduction == Reduction::sum || reduction == Reduction::max) sizes.push_back(300'007);
  const bool large = type == DataType::float32 || type == DataType::bfloat16;
  if (large && reduction == Reduction::sum) sizes.push_back(1'300'001);
  return sizes;
}

std::vector<std::byte> repeated(std::vector<std::byte> once, std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t at = 0; at < bytes; at += once.size())
    std::memcpy(all.data() + at, once.data(), std::min(once.size(), bytes - at));
  return all;
}

std::vector<std::byte> expected_of(DataType type, Reduction reduction, std::uint32_t ranks) {
  std::vector<std::byte> once(kRepeats * size_of(type));
  for (std::size_t i = 0; i < kRepeats; ++i) store_reduction(type, reduction, ranks, once.data(), i, i);
  return once;
}

class Hierarchy : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(Hierarchy, AllReduce) {
  const auto& [strategy, layout] = GetParam();
  World world(strategy, ranks_of(layout), placed(layout));
  if (HasFatalFailure()) return;
  std::atomic<std::size_t> cases = 0;
  world.run([&](Communicator& comm) {
    std::size_t own = 0;
    for (const DataType type : kTypes) {
      for (const Reduction reduction : kUsual) {
        if (strategy::route(type, reduction) == strategy::Route::none) continue;
        const auto once = inputs(type, reduction, comm.rank(), kRepeats);
        const auto right = expected_of(type, reduction, comm.size());
        for (const std::size_t count : sizes_of(type, reduction)) {
          const bool in_place = ++own % 2 == 0;
          const std::size_t bytes = count * size_of(type);
          auto input = repeated(once, bytes);
          std::vector<std::byte> output(in_place ? 0 : bytes);
          std::vector<std::byte>& result = in_place ? input : output;
          const auto ended = comm.all_reduce(input.data(), result.data(), count, type, reduction).wait();
          ASSERT_TRUE(ended) << ended.error().message;
          ASSERT_TRUE(result == repeated(right, bytes))
              << to_string(type) << " " << to_string(reduction) << " x " << count;
        }
      }
    }
    cases += own;
  });
  std::printf("%zu cases of %s on %s\n", cases.load() / ranks_of(layout), strategy.c_str(), layout.c_str());
  // 7 types by 5 reductions, but no average of bool; 9 sizes, a larger one of 14, the largest of 2.
  EXPECT_EQ(cases, ranks_of(layout) * ((7 * 5 - 1) * 9 + 14 + 2));
}

// What there is, at a size that ends within a block, a stripe and a word.
class EveryKind : public Hierarchy {};

TEST_P(EveryKind, OfTypeAndReduction) {
  constexpr std::size_t kCount = 20'011;
  const auto& [strategy, layout] = GetParam();
  World world(strategy, ranks_of(layout), placed(layout));
  if (HasFatalFailure()) return;
  std::atomic<std::size_t> cases = 0;
  world.run([&](Communicator& comm) {
    for (unsigned t = 1; t <= kDataTypes; ++t) {
      for (unsigned r = 1; r <= kReductions; ++r) {
        const auto type = static_cast<DataType>(t);
        const auto reduction = static_cast<Reduction>(r);
        if (strategy::route(type, reduction) == strategy::Route::none) continue;
        const std::size_t bytes = kCount * size_of(type);
        const auto input = repeated(inputs(type, reduction, comm.rank(), kRepeats), bytes);
        std::vector<std::byte> output(bytes);
        const auto ended = comm.all_reduce(input.data(), output.data(), kCount, type, reduction).wait();
        ASSERT_TRUE(ended) << ended.error().message;
        ASSERT_TRUE(output == repeated(expected_of(type, reduction, comm.size()), bytes))
            << to_string(type) << " " << to_string(reduction);
        ++cases;
      }
    }
  });
  // docs/numerics.md section 8: 4 types of floats by 5, 8 of integers by 8, bool by 7.
  EXPECT_EQ(cases, ranks_of(layout) * (4 * 5 + 8 * 8 + 7));
}

// More ranks than cores by far: whoever waits lets the others work.
TEST(Crowded, SixteenRanksOfAHost) {
  static constexpr std::size_t kCount = 1 << 18;
  World world("passing", 16, placed(Layout(16, 'a')));
  world.run([](Communicator& comm) {
    for (int i = 0; i < 6; ++i) {
      std::vector<float> data(kCount);
      fill(DataType::float32, data.data(), kCount, comm.rank());
      const auto ended = comm.all_reduce(data.data(), data.data(), kCount, DataType::float32).wait();
      ASSERT_TRUE(ended) << ended.error().message;
      ASSERT_EQ(first_wrong(DataType::float32, data.data(), kCount, comm.size(), false), kCount);
    }
  });
}

// Several at once, each longer than what may be on the way to the switch: hosts of different shape must not
// send them in a different order.
TEST(Crowded, SeveralLargeOnesAtOnce) {
  static constexpr std::size_t kCount = 3'000'000;
  for (const char* strategy : {"passing", "ring_hierarchical"}) {
    World world(strategy, 3, placed("abb"));
    world.run([](Communicator& comm) {
      std::vector<std::vector<float>> data(3, std::vector<float>(kCount));
      std::vector<Operation> all;
      for (auto& each : data) {
        fill(DataType::float32, each.data(), kCount, comm.rank());
        all.push_back(comm.all_reduce(each.data(), each.data(), kCount, DataType::float32));
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto ended = all[i].wait();
        ASSERT_TRUE(ended) << ended.error().message;
        ASSERT_EQ(first_wrong(DataType::float32, data[i].data(), kCount, comm.size(), false), kCount) << i;
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, Hierarchy,
    testing::Combine(testing::Values("passing", "ring_hierarchical", "ps_hierarchical", "auto"),
                     // One host; even and uneven ones; interleaved.
                     testing::Values("a", "aa", "aaa", "aaaa", "aaaaa", "aabb", "aaabcc", "abcd", "abbbb",
                                     "aabbccdd", "baabcb")),
    [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

INSTANTIATE_TEST_SUITE_P(
    Worlds, EveryKind,
    testing::Combine(testing::Values("passing", "ring_hierarchical", "ps_hierarchical", "auto"),
                     testing::Values("aaabcc", "baabcb")),
    [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

}  // namespace
}  // namespace passing::test
