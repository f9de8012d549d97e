// What a timeout is: docs/faults.md section 9, docs/communicator.md.
#include <gtest/gtest.h>

#include <algorithm>
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

// How long a megabyte takes from rank 0 to rank 1 after small messages that rank 0 has waited for: a quarter
// of the times are below this. `waited`: rank 0 waits for the large one, too.
milliseconds::rep microseconds_of_a_large_one(World& world, bool waited) {
  std::vector<std::byte> from(1 << 20), to(1 << 20), word(8), heard(8);
  std::vector<milliseconds::rep> times;
  for (int i = 0; i < 100; ++i) {
    for (int small = 0; small < 5; ++small) {
      const Operation got = world.at(1).recv(heard.data(), heard.size(), 0, 1);
      EXPECT_TRUE(world.at(0).send(word.data(), word.size(), 1, 1).wait());
      EXPECT_TRUE(got.wait());
    }
    const Operation got = world.at(1).recv(to.data(), to.size(), 0, 2);
    const auto begin = steady_clock::now();
    const Operation sent = world.at(0).send(from.data(), from.size(), 1, 2);
    if (waited) {
      EXPECT_TRUE(sent.wait());
    }
    EXPECT_TRUE(got.wait());
    times.push_back(
        std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - begin).count());
    EXPECT_TRUE(sent.wait());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 4];
}

// After operations that were waited for, the communicator's thread stands back for 2 ms. A large one that
// nobody waits for does not wait for that. A busy machine may be late, too, but not every time.
TEST(LargeOperations, BeginAtOnceThoughNobodyWaits) {
  World world("ring", 2);
  auto later = milliseconds::rep{1} << 30;
  for (int round = 0; round < 10 && later >= 1500; ++round) {
    const auto waited = microseconds_of_a_large_one(world, true);
    later = std::min(later, microseconds_of_a_large_one(world, false) - waited);
  }
  EXPECT_LT(later, 1500);
}

INSTANTIATE_TEST_SUITE_P(Strategies, Turns, testing::ValuesIn(strategies()),
                         [](const auto& each) { return each.param; });

// docs/faults.md 8.1, for messages that have begun and cannot be taken back.
TEST(Messages, NobodyTakesEndWithinASecond) {
  // With three ranks there is one that is not to blame, and says nothing: it is not waited for too long.
  World world("ring", 3);
  std::vector<char> data(8 << 20);
  const auto begun = std::chrono::steady_clock::now();
  const auto ended = world.at(0).send(data.data(), data.size(), 1, 3, {.timeout = milliseconds(300)}).wait();
  const auto took = std::chrono::steady_clock::now() - begun;
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::deadline);
  EXPECT_NE(ended.error().message.find("waiting for rank 1"), std::string::npos) << ended.error().message;
  EXPECT_GE(took, milliseconds(300));
  EXPECT_LT(took, milliseconds(1300));
}

}  // namespace
}  // namespace passing::test
