// What a timeout is: docs/faults.md section 9, docs/communicator.md.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "communicator/world.h"

namespace passing::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class Turns : public testing::TestWithParam<std::string> {};

// A hundred at once, each of which waits for the other rank a little: together longer than the timeout.
TEST_P(Turns, TimeCountsFromAnOperationsTurn) {
  World world(GetParam(), 2, [](Config& config) { config.timeout = milliseconds(1000); });
  world.run([](Communicator& comm) {
    constexpr int kOperations = 100;
    std::vector<std::vector<float>> data(kOperations, std::vector<float>(1000, 1));
    std::vector<Operation> operations;
    for (auto& each : data) {
      if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(15));
      operations.push_back(comm.all_reduce(each.data(), each.data(), each.size(), DataType::float32));
      if (comm.rank() == 1) {
        const auto ended = operations.back().wait();
        ASSERT_TRUE(ended) << ended.error().message;
      }
    }
    for (const Operation& each : operations) {
      const auto ended = each.wait();
      ASSERT_TRUE(ended) << ended.error().message;
    }
    for (const auto& each : data) ASSERT_EQ(each[999], 2);
  });
}

// The last of several that are called at once has its own time, and no more.
TEST_P(Turns, TheOneThatIsMissedFailsInTime) {
  World world(GetParam(), 2, [](Config& config) { config.timeout = milliseconds(600); });
  world.run([](Communicator& comm) {
    std::vector<std::vector<float>> data(5, std::vector<float>(1000, 1));
    std::vector<Operation> operations;
    const std::size_t calls = comm.rank() == 0 ? data.size() : 3;
    const auto begin = steady_clock::now();
    for (std::size_t i = 0; i < calls; ++i)
      operations.push_back(
          comm.all_reduce(data[i].data(), data[i].data(), data[i].size(), DataType::float32));
    for (std::size_t i = 0; i < 3; ++i) {
      const auto ended = operations[i].wait();
      ASSERT_TRUE(ended) << ended.error().message;
    }
    if (comm.rank() == 1) return std::this_thread::sleep_for(seconds(3));
    const auto ended = operations[3].wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::deadline) << ended.error().message;
    EXPECT_EQ(ended.error().members, std::vector<std::uint16_t>{1}) << ended.error().message;
    EXPECT_GE(steady_clock::now() - begin, milliseconds(600));
    EXPECT_LT(steady_clock::now() - begin, milliseconds(600 + 1000 + 500));  // 1 s, and a busy machine
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, Turns, testing::ValuesIn(strategies()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace passing::test
