// Threads that split at the same time, one communicator or several.
#include <gtest/gtest.h>

#include <deque>

#include "communicator/world.h"

namespace passing::test {
namespace {

constexpr std::uint32_t kThreads = 3;
constexpr int kRounds = 5;

std::unique_ptr<World> world_of(const std::string& strategy) {
  return std::make_unique<World>(strategy, 4, [](Config& config) {
    config.slots = 4;  // many groups share a switch
    config.timeout = std::chrono::seconds(20);
  });
}

// The even ranks, and the odd ones.
void split_and_use(Communicator& comm) {
  std::deque<Communicator> parts;  // all at the same time
  for (int round = 0; round < kRounds; ++round) {
    auto part = comm.split(static_cast<int>(comm.rank() % 2));
    ASSERT_TRUE(part) << part.error().message;
    ASSERT_TRUE(*part);
    ASSERT_EQ((*part)->size(), 2U);
    ASSERT_EQ((*part)->rank(), comm.rank() / 2);
    parts.push_back(std::move(**part));
  }
  for (Communicator& each : parts) {
    std::int32_t sum = static_cast<std::int32_t>(comm.rank());
    const auto ended = each.all_reduce(&sum, &sum, 1, DataType::int32).wait();
    ASSERT_TRUE(ended) << ended.error().message;
    ASSERT_EQ(sum, comm.rank() % 2 == 0 ? 0 + 2 : 1 + 3);
    ASSERT_TRUE(each.barrier().wait());
  }
}

class SplitByThreads : public testing::TestWithParam<std::string> {};

TEST_P(SplitByThreads, OfOneCommunicator) {
  const auto world = world_of(GetParam());
  if (HasFatalFailure()) return;
  world->run([](Communicator& comm) {
    parallel(kThreads, [&](std::uint32_t) { split_and_use(comm); });
    EXPECT_TRUE(comm.barrier().wait());
  });
}

TEST_P(SplitByThreads, OfSeveralCommunicators) {
  std::vector<std::unique_ptr<World>> worlds;
  for (std::uint32_t i = 0; i < kThreads; ++i) worlds.push_back(world_of(GetParam()));
  if (HasFatalFailure()) return;
  parallel(4, [&](std::uint32_t rank) {
    parallel(kThreads, [&](std::uint32_t thread) { split_and_use(worlds[thread]->at(rank)); });
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, SplitByThreads, testing::Values("ring", "passing", "in_network"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace passing::test
