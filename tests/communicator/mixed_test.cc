// Random sequences of operations over uneven hosts: none may come out of order.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "communicator/layout.h"
#include "communicator/values.h"
#include "seed.h"

namespace passing::test {
namespace {

// Two threads of each rank, each with a communicator of its own; several operations under way. Who shares
// memory with whom differs between the two.
class Mixed : public testing::TestWithParam<std::tuple<std::string, Layout>> {};

class Script {
 public:
  Script(Communicator& comm, unsigned seed) : comm_(comm), script_(seed), own_(seed + comm.rank() + 1) {}

  void play(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (own_() % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own_() % 2000));
      const auto kind = static_cast<unsigned>(script_() % 10);
      if (kind == 0) {
        const auto ended = comm_.barrier().wait();
        ASSERT_TRUE(ended) << ended.error().message;
      } else if (kind == 1) {
        broadcast();
      } else {
        begin(kind);
      }
      if (pending_.size() > 6 || script_() % 8 == 0) finish();
      if (testing::Test::HasFatalFailure()) return;
    }
    finish();
  }
  int operations() const { return operations_; }

 private:
  struct Pending {
    std::unique_ptr<Buffers> buffers;
    std::byte* data;
    std::size_t count;
    DataType type;
    Reduction reduction;
    Operation op;
  };

  void broadcast() {
    const auto root = static_cast<std::uint32_t>(script_() % comm_.size());
    std::vector<std::int32_t> data(script_() % 30'000, comm_.rank() == root ? 42 : 0);
    const auto ended = comm_.broadcast(data.data(), data.size(), DataType::int32, root).wait();
    ASSERT_TRUE(ended) << ended.error().message;
    ASSERT_EQ(data, std::vector<std::int32_t>(data.size(), 42));
    ++operations_;
  }

  void begin(unsigned kind) {
    const std::size_t count = kind < 5 ? script_() % 400'000 : script_() % 6000;
    const auto type = static_cast<DataType>(1 + script_() % 4);
    // A maximum never goes by the switch.
    const Reduction reduction = kind % 4 == 0   ? Reduction::max
                                : kind % 4 == 1 ? Reduction::average
                                                : Reduction::sum;
    auto buffers = std::make_unique<Buffers>(comm_, own_() % 2 == 0);
    std::byte* data = buffers->take(count * size_of(type) + 1);
    ASSERT_NE(data, nullptr);
    fill(type, data, count, comm_.rank());
    Operation op = comm_.all_reduce(data, data, count, type, reduction);
    pending_.push_back({std::move(buffers), data, count, type, reduction, std::move(op)});
  }

  void finish() {
    for (const Pending& each : pending_) {
      const auto ended = each.op.wait();
      ASSERT_TRUE(ended) << ended.error().message;
      if (each.reduction == Reduction::max) {
        for (std::size_t i = 0; i < each.count; ++i) {
          std::uint64_t right = 0;
          double most = value_of(0, i);
          for (std::uint32_t r = 1; r < comm_.size(); ++r) most = std::max(most, value_of(r, i));
          put(each.type, &right, 0, most);
          const std::size_t width = size_of(each.type);
          ASSERT_EQ(std::memcmp(each.data + i * width, &right, width), 0) << i;
        }
      } else {
        const bool average = each.reduction == Reduction::average;
        ASSERT_EQ(first_wrong(each.type, each.data, each.count, comm_.size(), average), each.count);
      }
      ++operations_;
    }
    pending_.clear();
  }

  Communicator& comm_;
  std::mt19937 script_;  // the same on all ranks
  std::mt19937 own_;
  std::vector<Pending> pending_;
  int operations_ = 0;
};

TEST_P(Mixed, RandomSequences) {
  const auto& [strategy, layout] = GetParam();
  const unsigned seed = random_seed();
  World first(strategy, ranks_of(layout), placed(layout));
  World second("ring_hierarchical", ranks_of(layout), placed(Layout(layout.rbegin(), layout.rend())));
  if (HasFatalFailure()) return;
  std::atomic<int> operations = 0;
  parallel(ranks_of(layout), [&](std::uint32_t rank) {
    const auto play = [&](World& world, unsigned which) {
      Script script(world.at(rank), seed + 1000 * which);
      script.play(60);
      operations += script.operations();
    };
    std::thread other([&] { play(second, 2); });
    play(first, 1);
    other.join();
  });
  EXPECT_GT(operations, 60 * static_cast<int>(layout.size()));
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, Mixed,
    testing::Combine(testing::Values("passing", "ring_hierarchical", "ps_hierarchical", "auto"),
                     testing::Values("abbb", "aaabcc", "baabcb")),
    [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

}  // namespace
}  // namespace passing::test
