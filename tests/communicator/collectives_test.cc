// Every collective, type and reduction against exact references: docs/collectives.md, docs/numerics.md
// section 8.
#include <fmt/format.h>
#include <gtest/gtest.h>

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

TEST_P(Collectives, OfEveryKind) {
  const auto& [strategy, size] = GetParam();
  World world(strategy, size);
  std::atomic<int> cases = 0;
  world.run([&, ranks = size](Communicator& comm) {
    const std::uint32_t me = comm.rank();
    const auto right = [&](const Operation& op) {
      const auto ended = op.wait();
      ASSERT_TRUE(ended) << ended.error().message;
      if (me == 0) ++cases;
    };
    for (const DataType type : {DataType::float32, DataType::int64, DataType::uint8, DataType::bfloat16}) {
      const std::size_t width = size_of(type);
      const auto sum = Reduction::sum;
      for (const std::size_t count : {0, 1, 7, 3000, 50'021}) {
        const auto mine = inputs(type, sum, me, count, me * count);
        std::vector<std::byte> all(count * width * ranks);
        std::vector<std::byte> expected_all;
        for (std::uint32_t r = 0; r < ranks; ++r) {
          const auto part = inputs(type, sum, r, count, r * count);
          expected_all.insert(expected_all.end(), part.begin(), part.end());
        }
        right(comm.all_gather(mine.data(), all.data(), count, type));
        ASSERT_EQ(all, expected_all);
        std::fill(all.begin(), all.end(), std::byte{0});
        if (count > 0) std::memcpy(all.data() + me * count * width, mine.data(), mine.size());
        right(comm.all_gather(all.data() + me * count * width, all.data(), count, type));  // in its place
        ASSERT_EQ(all, expected_all);

        for (const std::uint32_t root : {0U, ranks - 1}) {
          const bool here = root == me;
          std::vector<std::byte> gathered(here ? all.size() : 0);
          right(comm.gather(mine.data(), gathered.data(), count, type, root));
          if (here) {
            ASSERT_EQ(gathered, expected_all);
          }
          std::vector<std::byte> piece(mine.size());
          right(comm.scatter(here ? expected_all.data() : nullptr, piece.data(), count, type, root));
          ASSERT_EQ(piece, mine);

          const auto whole = inputs(type, sum, me, count);
          std::vector<std::byte> expected(count * width);
          for (std::size_t i = 0; i < count; ++i) store_reduction(type, sum, ranks, expected.data(), i, i);
          std::vector<std::byte> result(here ? expected.size() : 0);
          right(comm.reduce(whole.data(), result.data(), count, type, sum, root));
          if (here) {
            ASSERT_EQ(result, expected);
          }
          auto same = whole;
          right(comm.reduce(same.data(), same.data(), count, type, sum, root));
          if (here) {
            ASSERT_EQ(same, expected);
          }
        }

        const auto parts = inputs(type, sum, me, count * ranks);
        std::vector<std::byte> own(count * width);
        std::vector<std::byte> expected(count * width);
        for (std::size_t i = 0; i < count; ++i)
          store_reduction(type, sum, ranks, expected.data(), i, me * count + i);
        right(comm.reduce_scatter(parts.data(), own.data(), count, type));
        ASSERT_EQ(own, expected);

        // Rank r sends to j what it has from j * count on.
        std::vector<std::byte> swapped(parts.size());
        std::vector<std::byte> expected_swap;
        for (std::uint32_t r = 0; r < ranks; ++r) {
          const auto part = inputs(type, sum, r, count, me * count);
          expected_swap.insert(expected_swap.end(), part.begin(), part.end());
        }
        right(comm.all_to_all(parts.data(), swapped.data(), count, type));
        ASSERT_EQ(swapped, expected_swap);

        // The v-forms: rank r gives r * count + 1 elements, and (r + j) % 3 * count to rank j.
        std::vector<std::size_t> counts(ranks);
        for (std::uint32_t r = 0; r < ranks; ++r) counts[r] = (r % 3) * count + (r == 1 ? 0 : 1);
        std::vector<std::byte> expected_v;
        for (std::uint32_t r = 0; r < ranks; ++r) {
          const auto part = inputs(type, sum, r, counts[r]);
          expected_v.insert(expected_v.end(), part.begin(), part.end());
        }
        const auto given = inputs(type, sum, me, counts[me]);
        std::vector<std::byte> all_v(expected_v.size());
        right(comm.all_gatherv(given.data(), all_v.data(), counts, type));
        ASSERT_EQ(all_v, expected_v);

        std::vector<std::size_t> outgoing(ranks);
        std::vector<std::size_t> incoming(ranks);
        std::vector<std::byte> expected_in;
        for (std::uint32_t r = 0; r < ranks; ++r) {
          outgoing[r] = (me + 2 * r) % 3 * count;
          incoming[r] = (r + 2 * me) % 3 * count;
          std::size_t before = 0;
          for (std::uint32_t j = 0; j < me; ++j) before += (r + 2 * j) % 3 * count;
          const auto part = inputs(type, sum, r, incoming[r], before);
          expected_in.insert(expected_in.end(), part.begin(), part.end());
        }
        const auto out_v =
            inputs(type, sum, me, std::accumulate(outgoing.begin(), outgoing.end(), std::size_t{0}));
        std::vector<std::byte> in_v(expected_in.size());
        right(comm.all_to_allv(out_v.data(), outgoing, in_v.data(), incoming, type));
        ASSERT_EQ(in_v, expected_in);
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
