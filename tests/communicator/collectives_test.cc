// Every collective, type and reduction against exact references: docs/collectives.md, docs/numerics.md
// section 8.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "communicator/reference.h"
#include "communicator/world.h"
#include "numeric/kernels.h"
#include "strategy/reduce.h"

namespace passing::test {
namespace {

class Collectives : public testing::TestWithParam<std::tuple<std::string, std::uint32_t>> {};

TEST_P(Collectives, EveryTypeAndReduction) {
  const auto& [strategy, size] = GetParam();
  World world(strategy, size);
  std::atomic<int> cases = 0;
  world.run([&, ranks = size](Communicator& comm) {
    for (unsigned t = 1; t <= kDataTypes; ++t) {
      for (unsigned r = 1; r <= kReductions; ++r) {
        const auto type = static_cast<DataType>(t);
        const auto reduction = static_cast<Reduction>(r);
        if (strategy::route(type, reduction) == strategy::Route::none) {
          std::uint64_t nothing = 0;
          const auto refused = comm.all_reduce(&nothing, &nothing, 1, type, reduction).wait();
          ASSERT_FALSE(refused);
          EXPECT_NE(refused.error().message.find("cannot be reduced by"), std::string::npos);
          continue;
        }
        for (const std::size_t count : {1, 7, 1009, 20'003}) {
          std::vector<std::byte> data = inputs(type, reduction, comm.rank(), count);
          std::vector<std::byte> expected(data.size());
          for (std::size_t i = 0; i < count; ++i)
            store_reduction(type, reduction, ranks, expected.data(), i, i);
          std::vector<std::byte> output(data.size());
          auto ended = comm.all_reduce(data.data(), output.data(), count, type, reduction).wait();
          ASSERT_TRUE(ended) << ended.error().message;
          ASSERT_EQ(output, expected) << to_string(type) << " " << to_string(reduction) << " x " << count;
          ended = comm.all_reduce(data.data(), data.data(), count, type, reduction).wait();
          ASSERT_TRUE(ended) << ended.error().message;
          ASSERT_EQ(data, expected) << to_string(type) << " " << to_string(reduction) << " in place x "
                                    << count;
          if (comm.rank() == 0) cases += 2;
        }
      }
    }
  });
  std::printf("%d cases of %s with %u ranks\n", cases.load(), strategy.c_str(), size);
  // 4 float types x 5, 8 of integers x 8, bool x 7; 4 sizes, in place and not.
  EXPECT_EQ(cases, (4 * 5 + 8 * 8 + 7) * 4 * 2);
}

/// One rank that calls every collective, of `count` elements of a type.
class Caller {
 public:
  Caller(Communicator& comm, DataType type, std::size_t count)
      : comm_(comm),
        me_(comm.rank()),
        ranks_(comm.size()),
        type_(type),
        width_(size_of(type)),
        count_(count) {}

  void call_all() {
    gather_everywhere();
    for (const std::uint32_t root : {0U, ranks_ - 1}) with_root(root);
    scatter_sums();
    swap();
    gather_unequal();
    swap_unequal();
  }

  int cases = 0;

 private:
  static constexpr auto kSum = Reduction::sum;
  using Bytes = std::vector<std::byte>;

  void right(const Operation& op) {
    const auto ended = op.wait();
    ASSERT_TRUE(ended) << ended.error().message;
    ++cases;
  }
  // What everyone gives to an all_gather.
  Bytes given(std::uint32_t rank) const { return inputs(type_, kSum, rank, count_, rank * count_); }
  Bytes all_given() const {
    Bytes all;
    for (std::uint32_t r = 0; r < ranks_; ++r) append(all, given(r));
    return all;
  }
  static void append(Bytes& all, const Bytes& part) { all.insert(all.end(), part.begin(), part.end()); }
  Bytes sums(std::size_t first) const {
    Bytes expected(count_ * width_);
    for (std::size_t i = 0; i < count_; ++i)
      store_reduction(type_, kSum, ranks_, expected.data(), i, first + i);
    return expected;
  }

  void gather_everywhere() {
    const Bytes mine = given(me_);
    Bytes all(mine.size() * ranks_);
    right(comm_.all_gather(mine.data(), all.data(), count_, type_));
    ASSERT_EQ(all, all_given());
    std::fill(all.begin(), all.end(), std::byte{0});
    if (count_ > 0) std::memcpy(all.data() + me_ * mine.size(), mine.data(), mine.size());
    right(comm_.all_gather(all.data() + me_ * mine.size(), all.data(), count_, type_));  // in its place
    ASSERT_EQ(all, all_given());
  }

  void with_root(std::uint32_t root) {
    const bool here = root == me_;
    const Bytes mine = given(me_);
    const Bytes all = all_given();
    Bytes gathered(here ? all.size() : 0);
    right(comm_.gather(mine.data(), gathered.data(), count_, type_, root));
    if (here) {
      ASSERT_EQ(gathered, all);
    }
    Bytes piece(mine.size());
    right(comm_.scatter(here ? all.data() : nullptr, piece.data(), count_, type_, root));
    ASSERT_EQ(piece, mine);

    const Bytes whole = inputs(type_, kSum, me_, count_);
    Bytes result(here ? whole.size() : 0);
    right(comm_.reduce(whole.data(), result.data(), count_, type_, kSum, root));
    Bytes same = whole;
    right(comm_.reduce(same.data(), same.data(), count_, type_, kSum, root));
    if (here) {
      ASSERT_EQ(result, sums(0));
      ASSERT_EQ(same, sums(0));
    }
  }

  void scatter_sums() {
    const Bytes parts = inputs(type_, kSum, me_, count_ * ranks_);
    Bytes own(count_ * width_);
    right(comm_.reduce_scatter(parts.data(), own.data(), count_, type_));
    ASSERT_EQ(own, sums(me_ * count_));
  }

  // Rank r sends to j what it has from j * count on.
  void swap() {
    const Bytes parts = inputs(type_, kSum, me_, count_ * ranks_);
    Bytes swapped(parts.size());
    Bytes expected;
    for (std::uint32_t r = 0; r < ranks_; ++r) append(expected, inputs(type_, kSum, r, count_, me_ * count_));
    right(comm_.all_to_all(parts.data(), swapped.data(), count_, type_));
    ASSERT_EQ(swapped, expected);
  }

  // Rank r gives r * count + 1 elements, or the like.
  void gather_unequal() {
    std::vector<std::size_t> counts(ranks_);
    for (std::uint32_t r = 0; r < ranks_; ++r) counts[r] = (r % 3) * count_ + (r == 1 ? 0 : 1);
    Bytes expected;
    for (std::uint32_t r = 0; r < ranks_; ++r) append(expected, inputs(type_, kSum, r, counts[r]));
    const Bytes own = inputs(type_, kSum, me_, counts[me_]);
    Bytes all(expected.size());
    right(comm_.all_gatherv(own.data(), all.data(), counts, type_));
    ASSERT_EQ(all, expected);
  }

  // Rank r gives (r + 2 j) % 3 * count to rank j.
  void swap_unequal() {
    std::vector<std::size_t> outgoing(ranks_);
    std::vector<std::size_t> incoming(ranks_);
    Bytes expected;
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      outgoing[r] = (me_ + 2 * r) % 3 * count_;
      incoming[r] = (r + 2 * me_) % 3 * count_;
      std::size_t before = 0;
      for (std::uint32_t j = 0; j < me_; ++j) before += (r + 2 * j) % 3 * count_;
      append(expected, inputs(type_, kSum, r, incoming[r], before));
    }
    const Bytes out =
        inputs(type_, kSum, me_, std::accumulate(outgoing.begin(), outgoing.end(), std::size_t{0}));
    Bytes in(expected.size());
    right(comm_.all_to_allv(out.data(), outgoing, in.data(), incoming, type_));
    ASSERT_EQ(in, expected);
  }

  Communicator& comm_;
  std::uint32_t me_;
  std::uint32_t ranks_;
  DataType type_;
  std::size_t width_;
  std::size_t count_;
};

TEST_P(Collectives, OfEveryKind) {
  const auto& [strategy, size] = GetParam();
  World world(strategy, size);
  std::atomic<int> cases = 0;
  world.run([&](Communicator& comm) {
    for (const DataType type : {DataType::float32, DataType::int64, DataType::uint8, DataType::bfloat16}) {
      for (const std::size_t count : {0, 1, 7, 3000, 50'021}) {
        Caller caller(comm, type, count);
        caller.call_all();
        if (testing::Test::HasFatalFailure()) return;
        if (comm.rank() == 0) cases += caller.cases;
      }
    }
  });
  std::printf("%d collectives with %u ranks\n", cases.load(), size);
  EXPECT_EQ(cases, 4 * 5 * (2 + 2 * 4 + 4));
}

class Counts : public testing::TestWithParam<std::string> {};

TEST_P(Counts, ThatDoNotAddUp) {
  const std::string& strategy = GetParam();
  constexpr std::uint32_t size = 3;
  {
    World world(strategy, size);
    world.run([](Communicator& comm) {
      std::vector<float> data(100);
      std::vector<float> out(100);
      const std::vector<std::size_t> counts = {10, 20, comm.rank() == 1 ? 31U : 30U};
      const auto ended = comm.all_gatherv(data.data(), out.data(), counts, DataType::float32).wait();
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
      EXPECT_NE(ended.error().message.find("61 float32 in all"), std::string::npos) << ended.error().message;
    });
  }
  // The same total.
  {
    World world(strategy, size);
    world.run([](Communicator& comm) {
      std::vector<float> data(60);
      std::vector<float> out(60);
      const bool odd = comm.rank() == 1;
      const std::vector<std::size_t> counts = {10, odd ? 21U : 20U, odd ? 29U : 30U};
      const auto ended = comm.all_gatherv(data.data(), out.data(), counts, DataType::float32).wait();
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
      for (const char* part : {"in all (10, 21, 29 of each rank)", "in all (10, 20, 30 of each rank)"})
        EXPECT_NE(ended.error().message.find(part), std::string::npos) << ended.error().message;
    });
  }
  // Large parts go in pieces of 64 KB: one that is short of a whole piece shows too.
  struct Case {
    std::size_t sent;
    std::size_t expected;
    std::string sentence;
  };
  for (const auto& [sent, expected, sentence] :
       {Case{5, 6, "sent 20 bytes where rank 1 at"},
        Case{16 << 10, 32 << 10, "sent 65536 bytes where rank 1 at"},
        Case{32 << 10, 16 << 10, "sent 131072 bytes or more where rank 1 at"},
        Case{20 << 10, 5, "sent 65536 bytes or more where rank 1 at"}}) {
    World world(strategy, size);
    world.run([&](Communicator& comm) {
      std::vector<float> data(3 * std::max(sent, expected));
      std::vector<float> out(3 * std::max(sent, expected));
      const std::vector<std::size_t> outgoing(3, sent);
      const std::vector<std::size_t> incoming = {sent, sent, comm.rank() == 1 ? expected : sent};
      const auto ended =
          comm.all_to_allv(data.data(), outgoing, out.data(), incoming, DataType::float32).wait();
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
      for (const std::string& part : {sentence, fmt::format("expected {}:", 4 * expected)})
        EXPECT_NE(ended.error().message.find(part), std::string::npos) << ended.error().message;
      EXPECT_EQ(ended.error().members.size(), 2U);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Collectives,
                         testing::Combine(testing::ValuesIn(strategies()),
                                          testing::Values(1U, 2U, 3U, 5U, 8U)),
                         [](const auto& each) {
                           return std::get<0>(each.param) + "_" + std::to_string(std::get<1>(each.param));
                         });

INSTANTIATE_TEST_SUITE_P(Strategies, Counts, testing::ValuesIn(strategies()),
                         [](const auto& each) { return each.param; });

// Any value but 0 is true, and a result is 0 or 1, however many ranks there are.
TEST(Booleans, AreOneOrZero) {
  for (const std::uint32_t ranks : {1U, 2U}) {
    World world("ring", ranks);
    world.run([](Communicator& comm) {
      const std::uint8_t input[] = {0, 1, 5, 255};
      std::uint8_t output[4] = {};
      const auto ended = comm.all_reduce(input, output, 4, DataType::boolean, Reduction::max).wait();
      ASSERT_TRUE(ended) << ended.error().message;
      const std::uint8_t expected[] = {0, 1, 1, 1};
      EXPECT_EQ(std::memcmp(output, expected, 4), 0);
    });
  }
}

// The table of docs/numerics.md section 8, which the code is made from: what it promises can be computed.
TEST(Routes, HaveTheirKernels) {
  int routes = 0;
  for (unsigned t = 0; t <= kDataTypes + 1; ++t) {
    for (unsigned r = 0; r <= kReductions + 1; ++r) {
      const bool known = t >= 1 && t <= kDataTypes && r >= 1 && r <= kReductions;
      const auto route = strategy::route(static_cast<DataType>(t), static_cast<Reduction>(r));
      EXPECT_EQ(route != strategy::Route::none, known && numeric::kernels().combine[t][r] != nullptr)
          << t << " " << r;
      if (route != strategy::Route::none) ++routes;
    }
  }
  EXPECT_EQ(routes, 4 * 5 + 8 * 8 + 7);
}

}  // namespace
}  // namespace passing::test
