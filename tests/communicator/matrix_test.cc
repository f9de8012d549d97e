// Every strategy, rank count, type, size, reduction and placement against exact sums. Values are small
// integers, so that every order of adding gives the same, exactly representable result.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>

#include "communicator/values.h"
#include "communicator/world.h"

namespace passing::test {
namespace {

const std::vector<std::size_t> kSizes = {0,    1,    7,     351,   352,    353,    2111,     2112,
                                         2113, 4225, 65536, 65537, 131073, 262147, 1'000'000};
constexpr DataType kTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16, DataType::int32};

// Strategy, ranks, carrier.
class Matrix : public testing::TestWithParam<std::tuple<std::string, std::uint32_t, std::string>> {
 protected:
  const std::string strategy = std::get<0>(GetParam());
  const std::uint32_t size = std::get<1>(GetParam());
  World world{strategy, size, [](Config& config) { config.carrier = std::get<2>(GetParam()); }};
};

TEST_P(Matrix, AllReduce) {
  if (HasFatalFailure()) return;
  std::atomic<int> cases = 0;
  world.run([&, ranks = size](Communicator& comm) {
    for (const DataType type : kTypes) {
      for (const std::size_t count : kSizes) {
        for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
          for (const bool in_place : {false, true}) {
            std::vector<std::byte> input(count * size_of(type) + 1);
            std::vector<std::byte> output(in_place ? 0 : input.size());
            fill(type, input.data(), count, comm.rank());
            std::byte* where = in_place ? input.data() : output.data();
            const auto ended = comm.all_reduce(input.data(), where, count, type, reduction).wait();
            ASSERT_TRUE(ended) << ended.error().message;
            const std::size_t wrong = first_wrong(type, where, count, ranks, reduction == Reduction::average);
            ASSERT_EQ(wrong, count) << to_string(type) << " x " << count << " " << to_string(reduction);
            if (comm.rank() == 0) ++cases;
          }
        }
      }
    }
  });
  const int stated = static_cast<int>(std::size(kTypes) * kSizes.size() * 2 * 2);
  std::printf("%d cases of %s with %u ranks\n", cases.load(), strategy.c_str(), size);
  EXPECT_EQ(cases, stated);
}

TEST_P(Matrix, BroadcastBarrierSendRecv) {
  if (HasFatalFailure()) return;
  world.run([ranks = size](Communicator& comm) {
    for (const std::size_t count : {0, 1, 7, 16384, 16385, 300'001}) {
      for (std::uint32_t root = 0; root < ranks; root += 1 + ranks / 3) {
        std::vector<std::int32_t> data(count,
                                       comm.rank() == root ? static_cast<std::int32_t>(count + root) : -1);
        const auto ended = comm.broadcast(data.data(), count, DataType::int32, root).wait();
        ASSERT_TRUE(ended) << ended.error().message;
        ASSERT_EQ(data, std::vector<std::int32_t>(count, static_cast<std::int32_t>(count + root)));
      }
    }
    for (int i = 0; i < 10; ++i) {
      const auto ended = comm.barrier().wait();
      ASSERT_TRUE(ended) << ended.error().message;
    }
    if (ranks == 1) return;
    // Around the ring, both directions at once, receives posted first.
    const std::uint32_t right = (comm.rank() + 1) % ranks;
    const std::uint32_t left = (comm.rank() + ranks - 1) % ranks;
    for (const std::size_t count : {0, 1, 1000, 1'000'000}) {
      std::vector<std::uint8_t> from_left(count);
      std::vector<std::uint8_t> from_right(count);
      const std::vector<std::uint8_t> to_right(count, static_cast<std::uint8_t>(comm.rank()));
      const std::vector<std::uint8_t> to_left(count, static_cast<std::uint8_t>(100 + comm.rank()));
      const Operation all[] = {
          comm.recv(from_left.data(), count, left, 1), comm.recv(from_right.data(), count, right, 2),
          comm.send(to_right.data(), count, right, 1), comm.send(to_left.data(), count, left, 2)};
      for (const Operation& each : all) {
        const auto ended = each.wait();
        ASSERT_TRUE(ended) << ended.error().message;
      }
      ASSERT_EQ(from_left, std::vector<std::uint8_t>(count, static_cast<std::uint8_t>(left)));
      ASSERT_EQ(from_right, std::vector<std::uint8_t>(count, static_cast<std::uint8_t>(100 + right)));
    }
  });
}

// docs/numerics.md section 7: segment j is ((x_j + x_(j+1)) + ...), rounded after each addition, whatever the
// chunks.
TEST(Order, OfRingSums) {
  constexpr std::uint32_t kRanks = 5;
  constexpr std::size_t kCount = 400'003;  // several chunks per segment
  std::vector<std::vector<float>> inputs(kRanks, std::vector<float>(kCount));
  std::mt19937 source(7);
  for (auto& each : inputs) {
    for (float& value : each)
      value = std::ldexp(static_cast<float>(static_cast<int>(source() >> 8)) - 8e6F,
                         static_cast<int>(source() % 60) - 50);
  }
  inputs[1][10] = inputs[4][200'000] = INFINITY;
  inputs[2][10] = -INFINITY;
  inputs[3][300'000] = NAN;
  inputs[0][7] = 1e-45F;  // and denormals count
  for (std::uint32_t r = 1; r < kRanks; ++r) inputs[r][7] = 1e-45F;
  std::vector<float> expected(kCount);
  for (std::uint32_t j = 0; j < kRanks; ++j) {
    for (std::size_t i = j * kCount / kRanks; i < (j + 1) * kCount / kRanks; ++i) {
      float sum = inputs[j][i];
      for (std::uint32_t k = 1; k < kRanks; ++k) sum += inputs[(j + k) % kRanks][i];
      expected[i] = sum;
    }
  }
  World world("ring", kRanks);
  world.run([&](Communicator& comm) {
    std::vector<float> output(kCount);
    const auto ended =
        comm.all_reduce(inputs[comm.rank()].data(), output.data(), kCount, DataType::float32).wait();
    ASSERT_TRUE(ended) << ended.error().message;
    for (std::size_t i = 0; i < kCount; ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(output[i])) << i;
      } else {
        ASSERT_EQ(std::memcmp(&output[i], &expected[i], sizeof(float)), 0) << i;
      }
    }
  });
}

// Messages with one tag keep their order, from the very first on, whatever their sizes.
TEST(Order, OfMessages) {
  World world("ring", 2);
  constexpr std::uint32_t kMessages = 300;
  const auto length = [](std::uint32_t i) { return std::size_t{4} + (i % 7 == 3 ? 100'000 : i % 5 * 700); };
  world.run([&](Communicator& comm) {
    std::vector<std::vector<char>> out(kMessages);
    std::vector<std::vector<char>> in(kMessages);
    std::vector<Operation> all;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      out[i].resize(100'004);
      in[i].resize(100'004);
      std::memcpy(out[i].data(), &i, sizeof i);
      all.push_back(comm.send(out[i].data(), length(i), 1 - comm.rank(), 5));
      all.push_back(comm.recv(in[i].data(), length(i), 1 - comm.rank(), 5));
    }
    for (const Operation& each : all) {
      const auto ended = each.wait();
      ASSERT_TRUE(ended) << ended.error().message;
    }
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      std::uint32_t got = 0;
      std::memcpy(&got, in[i].data(), sizeof got);
      ASSERT_EQ(got, i);
    }
  });
}

std::string name(const testing::TestParamInfo<Matrix::ParamType>& each) {
  return std::get<0>(each.param) + "_" + std::to_string(std::get<1>(each.param));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Matrix,
                         testing::Combine(testing::ValuesIn(strategies()),
                                          testing::Values(1U, 2U, 3U, 4U, 5U, 8U, 13U),
                                          testing::Values("tcp")),
                         name);

// Without sockets between ranks. Servers are other processes, so that strategies with servers need them.
std::vector<std::string> without_servers() {
  auto all = strategies();
  std::erase_if(all, [](const std::string& each) { return each == "ps" || each == "ps_hierarchical"; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(InMemory, Matrix,
                         testing::Combine(testing::ValuesIn(without_servers()),
                                          testing::Values(2U, 3U, 5U, 8U), testing::Values("memory")),
                         name);

}  // namespace
}  // namespace passing::test
