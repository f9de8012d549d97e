// Random sequences of calls from several threads on several communicators: every result is right. Seeds are
// printed.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "communicator/values.h"
#include "communicator/world.h"
#include "seed.h"

namespace passing::test {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr auto kInt32 = DataType::int32;
using Numbers = std::vector<std::int32_t>;

/// What rank r has for rank j is 10 r + j, in each of `count` places.
Numbers part(std::size_t count, std::uint32_t r, std::uint32_t j) {
  return Numbers(count, static_cast<std::int32_t>(10 * r + j));
}

/// That of all ranks, one after the other.
template <class Each>
Numbers joined(Each each) {
  Numbers all;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    const Numbers one = each(r);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// One rank of one communicator.
class Player {
 public:
  Player(Communicator& comm, unsigned seed, unsigned which)
      : comm_(comm), rank_(comm.rank()), script_(seed + which), own_(seed + 100 * which + rank_) {}

  void play() {
    for (int i = 0; i < 60; ++i) {
      const auto kind = static_cast<unsigned>(script_() % 12);
      const std::size_t count = script_() % 4 == 0 ? script_() % 200'000 : script_() % 500;
      const auto type = static_cast<DataType>(1 + script_() % 4);
      const bool average = script_() % 2 == 0;
      const std::uint32_t root = script_() % kRanks;
      if (own_() % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(own_() % 3));
      if (kind == 0) {
        ASSERT_TRUE(comm_.barrier().wait());
      } else if (kind == 1) {
        Numbers data(count, rank_ == root ? 42 : 0);
        ASSERT_TRUE(comm_.broadcast(data.data(), count, kInt32, root).wait());
        ASSERT_EQ(data, Numbers(count, 42));
      } else if (kind <= 6) {
        exchange(kind, count, root);
        ++done;
      } else {
        begin_sum(count, type, average);
      }
      if (testing::Test::HasFatalFailure()) return;
      if (pending_.size() > 6) finish();
    }
    finish();
  }

  int done = 0;

 private:
  struct Pending {
    Operation op;
    std::vector<std::byte> data;
    DataType type;
    bool average;
  };

  void exchange(unsigned kind, std::size_t count, std::uint32_t root) {
    const Numbers mine = joined([&](std::uint32_t j) { return part(count, rank_, j); });
    const Numbers theirs = joined([&](std::uint32_t r) { return part(count, r, rank_); });
    const Numbers own_parts = joined([&](std::uint32_t r) { return part(count, r, r); });
    const Numbers own = part(count, rank_, rank_);
    Numbers all(kRanks * count);
    Numbers one(count);
    if (kind == 2) {
      ASSERT_TRUE(comm_.all_to_all(mine.data(), all.data(), count, kInt32).wait());
      ASSERT_EQ(all, theirs);
    } else if (kind == 3) {
      ASSERT_TRUE(comm_.all_gather(own.data(), all.data(), count, kInt32).wait());
      ASSERT_EQ(all, own_parts);
    } else if (kind == 4) {
      ASSERT_TRUE(comm_.reduce_scatter(mine.data(), one.data(), count, kInt32).wait());
      ASSERT_EQ(one,
                Numbers(count, static_cast<std::int32_t>(10 * kRanks * (kRanks - 1) / 2 + kRanks * rank_)));
    } else if (kind == 5) {
      ASSERT_TRUE(comm_.gather(own.data(), all.data(), count, kInt32, root).wait());
      if (rank_ == root) {
        ASSERT_EQ(all, own_parts);
      }
    } else {
      ASSERT_TRUE(comm_.scatter(own_parts.data(), one.data(), count, kInt32, root).wait());
      ASSERT_EQ(one, own);
    }
  }

  void begin_sum(std::size_t count, DataType type, bool average) {
    pending_.push_back({Operation(nullptr), std::vector<std::byte>(count * size_of(type)), type, average});
    Pending& last = pending_.back();
    fill(type, last.data.data(), count, rank_);
    last.op = comm_.all_reduce(last.data.data(), last.data.data(), count, type,
                               average ? Reduction::average : Reduction::sum);
  }

  void finish() {
    for (Pending& each : pending_) {
      const auto ended = each.op.wait();
      ASSERT_TRUE(ended) << ended.error().message;
      const std::size_t count = each.data.size() / size_of(each.type);
      ASSERT_EQ(first_wrong(each.type, each.data.data(), count, kRanks, each.average), count);
      ++done;
    }
    pending_.clear();
  }

  Communicator& comm_;
  std::uint32_t rank_;
  std::mt19937 script_;  // the same on all ranks
  std::mt19937 own_;     // pauses
  std::vector<Pending> pending_;
};

class Sequences : public testing::TestWithParam<std::string> {};

TEST_P(Sequences, AreRight) {
  const unsigned seed = random_seed();
  World first(GetParam(), kRanks);
  World second("ring", kRanks);
  std::atomic<int> operations = 0;
  parallel(kRanks, [&](std::uint32_t rank) {
    const auto play = [&](World& world, unsigned which) {
      Player player(world.at(rank), seed, which);
      player.play();
      operations += player.done;
    };
    std::thread other([&] { play(second, 2); });
    play(first, 1);
    other.join();
  });
  EXPECT_GT(operations, 100);
}

INSTANTIATE_TEST_SUITE_P(Strategies, Sequences, testing::ValuesIn(strategies()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace passing::test
