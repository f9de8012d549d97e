// Buffers of Communicator::allocate().
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>

#include "communicator/layout.h"
#include "communicator/values.h"

namespace passing::test {
namespace {

constexpr auto kInt = DataType::int32;

// What rank r has for rank j at i.
std::int32_t value(std::uint32_t r, std::uint32_t j, std::size_t i) {
  return static_cast<std::int32_t>(1'000'000 * r + 10'000 * j + i % 9973);
}

class Allocated : public testing::TestWithParam<std::string> {};

TEST_P(Allocated, EveryCollective) {
  const Layout layout = "aabaa";
  World world(GetParam(), ranks_of(layout), placed(layout));
  world.run([](Communicator& comm) {
    const std::uint32_t ranks = comm.size();
    const std::uint32_t me = comm.rank();
    for (const std::size_t count : {1, 1000, 40'009}) {
      const auto take = [&](std::size_t elements) {
        const auto data = comm.allocate(elements * sizeof(std::int32_t));
        EXPECT_TRUE(data) << data.error().message;
        return static_cast<std::int32_t*>(*data);
      };
      std::int32_t* parts = take(ranks * count);  // for each rank
      std::int32_t* all = take(ranks * count);
      std::int32_t* one = take(count);
      for (std::uint32_t j = 0; j < ranks; ++j) {
        for (std::size_t i = 0; i < count; ++i) parts[j * count + i] = value(me, j, i);
      }
      const auto right = [&](const char* what, const Operation& op, const std::int32_t* data,
                             std::uint32_t groups, const auto& expected) {
        const auto ended = op.wait();
        ASSERT_TRUE(ended) << what << ": " << ended.error().message;
        for (std::uint32_t j = 0; j < groups; ++j) {
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(data[j * count + i], expected(j, i)) << what << " " << j << " " << i;
        }
      };
      const auto sum_for = [&](std::uint32_t j, std::size_t i) {
        std::int32_t sum = 0;
        for (std::uint32_t r = 0; r < ranks; ++r) sum += value(r, j, i);
        return sum;
      };
      const auto sums = [&](std::uint32_t j, std::size_t i) { return sum_for(j, i); };
      const auto of_all = [&](std::uint32_t j, std::size_t i) { return value(j, 0, i); };
      right("all_reduce", comm.all_reduce(parts, all, ranks * count, kInt), all, ranks, sums);
      right("all_reduce max", comm.all_reduce(parts, all, ranks * count, kInt, Reduction::max), all, ranks,
            [&](std::uint32_t j, std::size_t i) { return value(ranks - 1, j, i); });
      right("reduce", comm.reduce(parts, all, ranks * count, kInt, Reduction::sum, 1), all,
            me == 1 ? ranks : 0, sums);
      right("reduce_scatter", comm.reduce_scatter(parts, one, count, kInt), one, 1,
            [&](std::uint32_t, std::size_t i) { return sum_for(me, i); });
      right("all_gather", comm.all_gather(parts, all, count, kInt), all, ranks, of_all);
      right("gather", comm.gather(parts, all, count, kInt, 2), all, me == 2 ? ranks : 0, of_all);
      right("scatter", comm.scatter(parts, one, count, kInt, 3), one, 1,
            [&](std::uint32_t, std::size_t i) { return value(3, me, i); });
      right("all_to_all", comm.all_to_all(parts, all, count, kInt), all, ranks,
            [&](std::uint32_t j, std::size_t i) { return value(j, me, i); });
      if (me == 4) std::copy(parts, parts + count, one);
      right("broadcast", comm.broadcast(one, count, kInt, 4), one, 1,
            [&](std::uint32_t, std::size_t i) { return value(4, 0, i); });
      const std::uint32_t left = (me + ranks - 1) % ranks;
      const Operation in = comm.recv(one, count * sizeof(std::int32_t), left, 1);
      ASSERT_TRUE(comm.send(parts, count * sizeof(std::int32_t), (me + 1) % ranks, 1).wait());
      right("recv", in, one, 1, [&](std::uint32_t, std::size_t i) { return value(left, 0, i); });
      right("all_reduce in place", comm.all_reduce(parts, parts, ranks * count, kInt), parts, ranks, sums);
      for (std::int32_t* each : {parts, all, one}) comm.free(each);
    }
  });
}

// Far more than there is, one after the other.
TEST_P(Allocated, IsUsedAgain) {
  World world(GetParam(), 3, placed("aab", [](Config& config) { config.shared_bytes = 4 << 20; }));
  world.run([](Communicator& comm) {
    std::mt19937 script(3);  // the same on all ranks
    for (int i = 0; i < 60; ++i) {
      const std::size_t count = 1 + script() % 300'000;
      const auto data = comm.allocate(count * sizeof(float));
      ASSERT_TRUE(data) << data.error().message;
      fill(DataType::float32, *data, count, comm.rank());
      const auto ended = comm.all_reduce(*data, *data, count, DataType::float32).wait();
      ASSERT_TRUE(ended) << ended.error().message;
      ASSERT_EQ(first_wrong(DataType::float32, *data, count, comm.size(), false), count);
      comm.free(*data);
    }
    comm.free(nullptr);
  });
}

TEST_P(Allocated, TooMuchIsASentence) {
  World world(GetParam(), 2, placed("aa", [](Config& config) { config.shared_bytes = 8 << 20; }));
  world.run([](Communicator& comm) {
    for (const std::size_t bytes : {std::size_t{9} << 20, SIZE_MAX - 5, SIZE_MAX}) {
      const auto refused = comm.allocate(bytes);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::no_capacity);
      for (const std::string& part : {"cannot allocate " + std::to_string(bytes) + " bytes of shared memory",
                                      std::string("of 8388608 for each rank"), std::string("shared_bytes")})
        EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
    }
    // Nothing is lost by that.
    EXPECT_TRUE(comm.allocate(4 << 20));
    EXPECT_FALSE(comm.allocate(4 << 20));
    EXPECT_TRUE(comm.barrier().wait());
  });
}

void expect_refused(const Expected<void>& freed, const void* data) {
  ASSERT_FALSE(freed);
  EXPECT_EQ(freed.error().code, ErrorCode::invalid_argument);
  std::ostringstream where;
  where << data;
  EXPECT_EQ(freed.error().message,
            "the buffer at " + where.str() +
                " cannot be freed: this communicator did not allocate it, or has freed it already");
}

TEST_P(Allocated, WhatIsNotIsNotFreed) {
  for (const Layout layout : {"aa", "ab"}) {  // with and without shared memory
    World world(GetParam(), ranks_of(layout), placed(layout));
    world.run([](Communicator& comm) {
      const auto data = comm.allocate(100'000);
      ASSERT_TRUE(data) << data.error().message;
      auto* inside = static_cast<char*>(*data) + 4096;
      int foreign = 0;
      for (void* each : {static_cast<void*>(inside), static_cast<void*>(&foreign), static_cast<void*>(&comm)})
        expect_refused(comm.free(each), each);
      EXPECT_TRUE(comm.free(*data));
      expect_refused(comm.free(*data), *data);
      EXPECT_TRUE(comm.free(nullptr));
      // It goes on.
      const auto more = comm.allocate(100'000);
      ASSERT_TRUE(more) << more.error().message;
      EXPECT_TRUE(comm.all_reduce(*more, *more, 25'000, DataType::int32).wait());
      EXPECT_TRUE(comm.free(*more));
    });
  }
}

// Neighbours may be in trouble; what this rank has been given is its own until the end.
TEST_P(Allocated, StaysAfterAFailure) {
  World world(GetParam(), 4, placed("aabb"));
  world.run([](Communicator& comm) {
    constexpr std::size_t kCount = 200'000;
    const auto kept = comm.allocate(kCount * sizeof(float));
    const auto used = comm.allocate(kCount * sizeof(float));
    ASSERT_TRUE(kept && used);
    auto* mine = static_cast<float*>(*kept);
    std::iota(mine, mine + kCount, static_cast<float>(comm.rank()));
    const auto ended = comm.all_reduce(*used, *used, kCount - comm.rank(), DataType::float32).wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(mine[i], static_cast<float>(comm.rank() + i));
    std::fill_n(static_cast<float*>(*used), kCount, 1.0F);
    comm.free(*used);
    EXPECT_EQ(mine[kCount - 1], static_cast<float>(comm.rank() + kCount - 1));
    const auto more = comm.allocate(1000);
    ASSERT_TRUE(more) << more.error().message;
    std::fill_n(static_cast<char*>(*more), 1000, 'x');
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, Allocated,
                         testing::Values("passing", "ring_hierarchical", "ps_hierarchical", "auto"),
                         [](const auto& each) { return each.param; });

// Without neighbours it is ordinary memory, of which there is as much as there is.
TEST(Allocate, WithoutNeighbours) {
  struct Case {
    const char* strategy;
    Layout layout;
  };
  for (const Case& each : {Case{"passing", "a"}, Case{"ring", "aa"}, Case{"passing", "ab"}}) {
    World world(each.strategy, ranks_of(each.layout),
                placed(each.layout, [](Config& config) { config.shared_bytes = 1 << 20; }));
    world.run([](Communicator& comm) {
      constexpr std::size_t kCount = 1 << 20;
      const auto data = comm.allocate(kCount * sizeof(float));
      ASSERT_TRUE(data) << data.error().message;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*data) % 64, 0U);
      fill(DataType::float32, *data, kCount, comm.rank());
      const auto ended = comm.all_reduce(*data, *data, kCount, DataType::float32).wait();
      ASSERT_TRUE(ended) << ended.error().message;
      EXPECT_EQ(first_wrong(DataType::float32, *data, kCount, comm.size(), false), kCount);
      comm.free(*data);
      const auto refused = comm.allocate(SIZE_MAX);
      ASSERT_FALSE(refused);
      EXPECT_NE(refused.error().message.find("cannot allocate " + std::to_string(SIZE_MAX)),
                std::string::npos)
          << refused.error().message;
    });
  }
}

}  // namespace
}  // namespace passing::test
