// Hosts of a rack sum before the switch: docs/collectives.md, "Racks"; docs/numerics.md section 7.
#include <gtest/gtest.h>

#include <random>

#include "communicator/world.h"

namespace passing::test {
namespace {

struct Layout {
  const char* name;
  std::vector<int> hosts;  // of each rank
  std::vector<int> racks;  // of each rank
};

class Racks : public testing::TestWithParam<Layout> {};

std::function<void(Config&)> placed(const Layout& layout, const std::string& domain = "rack") {
  return [layout, domain](Config& config) {
    config.host = "host-" + std::to_string(layout.hosts[config.rank]);
    config.rack = "rack-" + std::to_string(layout.racks[config.rank]);
    config.local_domain = domain;
  };
}

// Small whole numbers: every order of additions gives the same bits.
TEST_P(Racks, SumExactly) {
  const auto size = static_cast<std::uint32_t>(GetParam().hosts.size());
  World world("passing", size, placed(GetParam()));
  int cases = 0;
  for (const std::size_t count : {1UL, 2112UL, 2113UL, 70'000UL, 600'001UL}) {
    for (const Reduction reduction : {Reduction::sum, Reduction::average, Reduction::max}) {
      world.run([&](Communicator& comm) {
        std::vector<float> data(count);
        for (std::size_t i = 0; i < count; ++i)
          data[i] = static_cast<float>((i * 7 + comm.rank() * 13) % 64) * static_cast<float>(size);
        const auto ended =
            comm.all_reduce(data.data(), data.data(), count, DataType::float32, reduction).wait();
        ASSERT_TRUE(ended) << ended.error().message;
        for (std::size_t i = 0; i < count; ++i) {
          std::size_t sum = 0;
          std::size_t most = 0;
          for (std::uint32_t r = 0; r < size; ++r) {
            const std::size_t each = (i * 7 + r * 13) % 64 * size;
            sum += each;
            most = std::max(most, each);
          }
          const std::size_t expected = reduction == Reduction::sum       ? sum
                                       : reduction == Reduction::average ? sum / size
                                                                         : most;
          ASSERT_EQ(data[i], static_cast<float>(expected)) << i;
        }
      });
      ++cases;
    }
  }
  EXPECT_EQ(cases, 15);
}

TEST_P(Racks, OfNarrowFloatsAndWholeNumbers) {
  const auto size = static_cast<std::uint32_t>(GetParam().hosts.size());
  World world("passing", size, placed(GetParam()));
  world.run([&](Communicator& comm) {
    std::vector<std::uint16_t> halves(50'000, 0x3C00);  // 1
    ASSERT_TRUE(comm.all_reduce(halves.data(), halves.data(), halves.size(), DataType::float16).wait());
    for (const std::uint16_t each : halves) {
      // 2^10 is the exponent's place; sizes here are below 16.
      const int exponent = (each >> 10) - 15;
      const double value = (1 + (each & 0x3FF) / 1024.0) * (1 << exponent);
      ASSERT_EQ(value, size);
    }
    std::vector<std::int64_t> whole(10'000, comm.rank());
    ASSERT_TRUE(comm.all_reduce(whole.data(), whole.data(), whole.size(), DataType::int64).wait());
    for (const std::int64_t each : whole) ASSERT_EQ(each, size * (size - 1) / 2);
  });
}

// The bits are a function of inputs and grouping: not of lanes, slots, or run.
TEST_P(Racks, HaveTheSameBitsAlways) {
  const auto size = static_cast<std::uint32_t>(GetParam().hosts.size());
  constexpr std::size_t kCount = 400'003;
  std::vector<float> first;
  for (const std::uint32_t slots : {0U, 16U}) {
    World world("passing", size, [&](Config& config) {
      placed(GetParam())(config);
      config.slots = slots;
    });
    std::vector<std::vector<float>> results(size);
    world.run([&](Communicator& comm) {
      std::mt19937 random(comm.rank());
      std::normal_distribution<float> values;
      std::vector<float> data(kCount);
      for (float& each : data) each = values(random);
      ASSERT_TRUE(comm.all_reduce(data.data(), data.data(), kCount, DataType::float32).wait());
      results[comm.rank()] = std::move(data);
    });
    if (first.empty()) first = results[0];
    for (const auto& each : results) EXPECT_EQ(each, first);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Racks,
    testing::Values(Layout{"TwoOfTwo", {0, 1, 2, 3}, {0, 0, 1, 1}}, Layout{"OneOnly", {0, 1, 2}, {0, 0, 0}},
                    Layout{"SeveralRanks", {0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 1, 1, 1, 1}},
                    Layout{"Uneven", {0, 0, 1, 2, 2, 3}, {0, 0, 0, 0, 0, 1}},
                    Layout{"OneHostEach", {0, 1, 2}, {0, 1, 2}}),
    [](const auto& each) { return each.param.name; });

TEST(RackLabels, MustBeThereAndAgree) {
  Config config;
  config.size = 2;
  config.directory = "/tmp";
  config.local_domain = "rack";
  EXPECT_EQ(config.validate().error().message,
            "local_domain is 'rack' but rack is empty: set PASSING_RACK to the label of this host's rack");
  config.local_domain = "row";
  EXPECT_EQ(config.validate().error().message,
            "local_domain is 'row': must be host or rack (PASSING_LOCAL_DOMAIN)");
  Table table(2);
  parallel(2, [&](std::uint32_t rank) {
    Config own;
    own.rank = rank;
    own.size = 2;
    own.strategy = "passing";
    own.host = "the one";
    own.local_domain = "rack";
    own.rack = rank == 0 ? "left" : "right";
    own.exchange = table.exchange(rank);
    const auto made = Communicator::create(own);
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().message.find("share a host, but their racks are 'left' and 'right'"),
              std::string::npos)
        << made.error().message;
  });
}

}  // namespace
}  // namespace passing::test
