// What frameworks need besides: a receive from whoever sends, and a call when an operation has ended.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "communicator/world.h"

namespace passing::test {
namespace {

// Small ones come whole, large ones are announced first.
class AnySource : public testing::TestWithParam<std::size_t> {};

TEST_P(AnySource, TakesFromEveryoneOnce) {
  World world("ring", 4);
  world.run([bytes = GetParam()](Communicator& comm) {
    if (comm.rank() != 2) {
      const std::vector<char> data(bytes, static_cast<char>(comm.rank() + 1));
      const auto ended = comm.send(data.data(), bytes, 2, 9).wait();
      ASSERT_TRUE(ended) << ended.error().message;
      return;
    }
    std::set<std::uint32_t> sources;
    for (int i = 0; i < 3; ++i) {
      std::vector<char> data(bytes);
      const Operation op = comm.recv(data.data(), bytes, kAnySource, 9);
      const auto ended = op.wait();
      ASSERT_TRUE(ended) << ended.error().message;
      EXPECT_EQ(data, std::vector<char>(bytes, static_cast<char>(op.source() + 1)));
      sources.insert(op.source());
    }
    EXPECT_EQ(sources, (std::set<std::uint32_t>{0, 1, 3}));
  });
}

TEST_P(AnySource, LeavesOtherTagsAlone) {
  World world("ring", 3);
  world.run([bytes = GetParam()](Communicator& comm) {
    std::vector<char> data(bytes, 'x');
    if (comm.rank() == 1) {
      ASSERT_TRUE(comm.send(data.data(), bytes, 0, 1).wait());
    } else if (comm.rank() == 2) {
      ASSERT_TRUE(comm.send(data.data(), bytes, 0, 2).wait());
    } else {
      const Operation second = comm.recv(data.data(), bytes, kAnySource, 2);
      ASSERT_TRUE(second.wait());
      EXPECT_EQ(second.source(), 2U);
      const Operation first = comm.recv(data.data(), bytes, kAnySource, 1);
      ASSERT_TRUE(first.wait());
      EXPECT_EQ(first.source(), 1U);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, AnySource, testing::Values(0, 5, 300'000),
                         [](const auto& each) { return std::to_string(each.param) + "_bytes"; });

TEST(AnySourceFaults, WrongLengthNamesTheSender) {
  World world("ring", 3);
  world.run([](Communicator& comm) {
    char data[8] = {};
    if (comm.rank() == 1) {
      ASSERT_TRUE(comm.send(data, 8, 0, 3).wait());
    }
    if (comm.rank() != 0) return;
    const auto ended = comm.recv(data, 4, kAnySource, 3).wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::disagreement);
    EXPECT_NE(ended.error().message.find("rank 1"), std::string::npos) << ended.error().message;
  });
}

TEST(AnySourceFaults, LateEndsAlone) {
  World world("ring", 2);
  world.run([](Communicator& comm) {
    char byte = 0;
    if (comm.rank() == 0) {
      const auto ended =
          comm.recv(&byte, 1, kAnySource, 3, {.timeout = std::chrono::milliseconds(100)}).wait();
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, ErrorCode::deadline);
      EXPECT_NE(ended.error().message.find("any rank"), std::string::npos) << ended.error().message;
    }
    const auto after = comm.barrier().wait();
    EXPECT_TRUE(after) << after.error().message;
  });
}

TEST(AnySourceFaults, EndsWhenAllOthersHaveLeft) {
  World world("ring", 3);
  char byte = 0;
  const char gift = 0;
  // Who has no connection with a rank does not tell it.
  for (const std::uint32_t other : {1, 2}) {
    const Operation sent = world.at(other).send(&gift, 1, 0, 1);
    ASSERT_TRUE(world.at(0).recv(&byte, 1, other, 1).wait());
    ASSERT_TRUE(sent.wait());
  }
  const Operation op = world.at(0).recv(&byte, 1, kAnySource, 3);
  world.drop(1);
  EXPECT_FALSE(op.test());
  world.drop(2);
  const auto ended = op.wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::peer_lost);
  EXPECT_NE(ended.error().message.find("every other rank has left"), std::string::npos)
      << ended.error().message;
}

TEST(AnySourceFaults, NothingIsSentToAnyRank) {
  World world("ring", 2);
  char byte = 0;
  const auto ended = world.at(0).send(&byte, 1, kAnySource, 3).wait();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::invalid_argument);
}

TEST(AnySourceFaults, AloneThereIsNone) {
  World world("ring", 1);
  char byte = 0;
  EXPECT_FALSE(world.at(0).recv(&byte, 1, kAnySource, 3).wait());
}

TEST(OnEnd, IsCalledOnceBeforeOrAfter) {
  World world("passing", 4);
  world.run([](Communicator& comm) {
    for (int i = 0; i < 200; ++i) {
      std::vector<float> data(100);
      std::atomic<int> calls = 0;
      const Operation op = comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32);
      if (i % 2 == 0) {
        ASSERT_TRUE(op.wait());
      }
      op.on_end([&calls] { ++calls; });
      ASSERT_TRUE(op.wait());
      // The thread that ended it may be about to call.
      for (int tries = 0; calls == 0 && tries < 10'000; ++tries)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      ASSERT_EQ(calls, 1);
    }
  });
}

TEST(OnEnd, IsCalledForWhatFails) {
  std::atomic<int> calls = 0;
  std::vector<float> data(100);
  {
    World world("ring", 2);
    world.at(0)
        .all_reduce(data.data(), data.data(), data.size(), DataType::float32, Reduction::bit_and)
        .on_end([&calls] { ++calls; });  // refused
    EXPECT_EQ(calls, 1);
    world.at(0).all_reduce(data.data(), data.data(), data.size(), DataType::float32).on_end([&calls] {
      ++calls;
    });
    world.drop(0);  // rank 1 never calls it
    EXPECT_EQ(calls, 2);
  }
}

}  // namespace
}  // namespace passing::test
