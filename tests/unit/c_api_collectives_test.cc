// The C interface: every collective, with three ranks as threads, and with arguments that are refused.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "passing/passing.h"
#include "unit/c_api.h"

namespace passing::test {
namespace {

constexpr std::uint32_t kRanks = 3;

/// Runs `body` with each rank's end of a group, in a thread for each.
void in_group(const std::function<void(passing_comm*, std::uint32_t rank)>& body) {
  struct Seat {
    std::latch& given;
    std::array<std::string, kRanks>& blobs;
    std::uint32_t rank;
  };
  std::latch given(kRanks);
  std::array<std::string, kRanks> blobs;
  const passing_exchange exchange = [](void* context, const void* blob, std::size_t bytes,
                                       passing_blobs* all) {
    const auto* seat = static_cast<const Seat*>(context);
    seat->blobs[seat->rank].assign(static_cast<const char*>(blob), bytes);
    seat->given.arrive_and_wait();
    for (std::uint32_t r = 0; r < kRanks; ++r)
      passing_blobs_set(all, r, seat->blobs[r].data(), seat->blobs[r].size());
    return 0;
  };
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const Settings settings;
      Seat seat{given, blobs, rank};
      passing_config_set(settings.config, "rank", std::to_string(rank).c_str());
      passing_config_set(settings.config, "size", std::to_string(kRanks).c_str());
      passing_config_set_exchange(settings.config, exchange, &seat);
      passing_comm* comm = nullptr;
      EXPECT_EQ(passing_create(settings.config, &comm), PASSING_OK) << passing_error();
      if (comm != nullptr) body(comm, rank);
      // No one leaves while others are still at it.
      EXPECT_EQ(passing_barrier(comm, 0, nullptr), PASSING_OK) << passing_error();
      passing_free(comm);
    });
  }
  for (std::thread& each : threads) each.join();
}

/// Calls what takes an operation twice: it waits itself, and is waited for.
void expect_ok_both_ways(const std::function<passing_status(passing_op**)>& call) {
  EXPECT_EQ(call(nullptr), PASSING_OK) << passing_error();
  passing_op* op = nullptr;
  ASSERT_EQ(call(&op), PASSING_OK) << passing_error();
  EXPECT_EQ(passing_wait(op), PASSING_OK) << passing_error();
}

TEST(CApi, ReduceAndReduceScatterOfThreeRanks) {
  in_group([](passing_comm* comm, std::uint32_t rank) {
    const bool root = rank == 2;
    const std::vector<std::int64_t> given = {10 * std::int64_t{rank}, -std::int64_t{rank}};
    std::vector<std::int64_t> most(2, 77);
    expect_ok_both_ways([&](passing_op** op) {
      return passing_reduce(comm, given.data(), root ? most.data() : nullptr, 2, PASSING_INT64, PASSING_MAX,
                            2, 0, op);
    });
    EXPECT_EQ(most, root ? (std::vector<std::int64_t>{20, 0}) : (std::vector<std::int64_t>{77, 77}));

    const std::vector<double> factors = {rank + 1.0, 0.5, -1, rank + 2.0, 2, 3};
    std::vector<double> products(2);
    expect_ok_both_ways([&](passing_op** op) {
      return passing_reduce_scatter(comm, factors.data(), products.data(), 2, PASSING_FLOAT64,
                                    PASSING_PRODUCT, 0, op);
    });
    const std::vector<double> expected[] = {{6, 0.125}, {-1, 24}, {8, 27}};
    EXPECT_EQ(products, expected[rank]);
  });
}

TEST(CApi, GatherAndScatterOfThreeRanks) {
  using Numbers = std::vector<std::uint16_t>;
  in_group([](passing_comm* comm, std::uint32_t rank) {
    const auto own = static_cast<std::uint16_t>(10 * rank);
    const Numbers given = {own, static_cast<std::uint16_t>(own + 1)};
    const Numbers everything = {0, 1, 10, 11, 20, 21};
    const bool root = rank == 1;

    Numbers all(6);
    expect_ok_both_ways([&](passing_op** op) {
      return passing_all_gather(comm, given.data(), all.data(), 2, PASSING_UINT16, 0, op);
    });
    EXPECT_EQ(all, everything);

    const std::size_t counts[kRanks] = {2, 0, 1};
    Numbers some(3);
    expect_ok_both_ways([&](passing_op** op) {
      return passing_all_gatherv(comm, given.data(), some.data(), counts, PASSING_UINT16, 0, op);
    });
    EXPECT_EQ(some, (Numbers{0, 1, 20}));

    Numbers gathered(6);
    expect_ok_both_ways([&](passing_op** op) {
      return passing_gather(comm, given.data(), root ? gathered.data() : nullptr, 2, PASSING_UINT16, 1, 0,
                            op);
    });
    EXPECT_EQ(gathered, root ? everything : Numbers(6));

    Numbers part(2);
    expect_ok_both_ways([&](passing_op** op) {
      return passing_scatter(comm, root ? everything.data() : nullptr, part.data(), 2, PASSING_UINT16, 1, 0,
                             op);
    });
    EXPECT_EQ(part, given);
  });
}

TEST(CApi, AllToAllOfThreeRanks) {
  using Numbers = std::vector<std::int32_t>;
  in_group([](passing_comm* comm, std::uint32_t rank) {
    const auto own = static_cast<std::int32_t>(10 * rank);
    const auto me = static_cast<std::int32_t>(rank);
    const Numbers given = {own, own + 1, own + 2};
    Numbers got(3);
    expect_ok_both_ways([&](passing_op** op) {
      return passing_all_to_all(comm, given.data(), got.data(), 1, PASSING_INT32, 0, op);
    });
    EXPECT_EQ(got, (Numbers{me, me + 10, me + 20}));

    // Everyone gives nothing to rank 0, one element to rank 1, and two to rank 2.
    const std::size_t outgoing[kRanks] = {0, 1, 2};
    const std::size_t incoming[kRanks] = {rank, rank, rank};
    Numbers some(std::size_t{kRanks} * rank);
    expect_ok_both_ways([&](passing_op** op) {
      return passing_all_to_allv(comm, given.data(), outgoing, some.data(), incoming, PASSING_INT32, 0, op);
    });
    const Numbers expected[] = {{}, {0, 10, 20}, {1, 2, 11, 12, 21, 22}};
    EXPECT_EQ(some, expected[rank]);
  });
}

TEST(CApi, RecvFromAnyRankSaysWhoSent) {
  in_group([](passing_comm* comm, std::uint32_t rank) {
    if (rank != 1) {
      EXPECT_EQ(passing_send(comm, &rank, sizeof rank, 1, 7, 0, nullptr), PASSING_OK) << passing_error();
      return;
    }
    std::set<std::uint32_t> sources;
    for (std::uint32_t i = 1; i < kRanks; ++i) {
      std::uint32_t said = kRanks;
      std::uint32_t source = kRanks;
      EXPECT_EQ(passing_recv_from(comm, &said, sizeof said, PASSING_ANY_SOURCE, 7, 0, &source), PASSING_OK)
          << passing_error();
      EXPECT_EQ(source, said);
      sources.insert(source);
    }
    EXPECT_EQ(sources, (std::set<std::uint32_t>{0, 2}));
    // Nobody sends that.
    std::uint32_t source = 0;
    EXPECT_EQ(passing_recv_from(comm, nullptr, 0, 0, 8, 0.05, &source), PASSING_DEADLINE);
    EXPECT_EQ(source, PASSING_ANY_SOURCE);
  });
}

TEST(CApi, ATimeoutOfNoughtIsTheCommunicators) {
  in_group([](passing_comm* comm, std::uint32_t rank) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(passing_barrier(comm, 0, nullptr), PASSING_OK) << passing_error();
  });
}

/// One element of each rank, summed over all.
template <class T>
T summed(passing_comm* comm, passing_type type, T element) {
  EXPECT_EQ(passing_all_reduce(comm, &element, &element, 1, type, PASSING_SUM, 0, nullptr), PASSING_OK)
      << passing_error();
  return element;
}

TEST(CApi, EveryTypeOfThreeRanks) {
  in_group([](passing_comm* comm, std::uint32_t rank) {
    const auto small = static_cast<std::uint8_t>(rank + 1);  // the sum is 6
    const auto wide = [&](unsigned bits) { return std::uint64_t{small} << bits; };
    EXPECT_EQ(summed<float>(comm, PASSING_FLOAT32, small + 0.25F), 6.75F);
    EXPECT_EQ(summed<std::uint16_t>(comm, PASSING_FLOAT16, 0x3c00), 0x4200);   // 1 + 1 + 1
    EXPECT_EQ(summed<std::uint16_t>(comm, PASSING_BFLOAT16, 0x3f80), 0x4040);  // 1 + 1 + 1
    EXPECT_EQ(summed<double>(comm, PASSING_FLOAT64, small + 0x1p-40), 6 + 0x3p-40);
    EXPECT_EQ(summed<std::int8_t>(comm, PASSING_INT8, static_cast<std::int8_t>(-small)), -6);
    EXPECT_EQ(summed<std::uint8_t>(comm, PASSING_UINT8, static_cast<std::uint8_t>(30 * small)), 180);
    EXPECT_EQ(summed<std::int16_t>(comm, PASSING_INT16, static_cast<std::int16_t>(-1000 * small)), -6000);
    EXPECT_EQ(summed<std::uint16_t>(comm, PASSING_UINT16, static_cast<std::uint16_t>(9000 * small)), 54000);
    EXPECT_EQ(summed<std::int32_t>(comm, PASSING_INT32, -70000 * small), -420000);
    EXPECT_EQ(summed<std::uint32_t>(comm, PASSING_UINT32, static_cast<std::uint32_t>(wide(29))), 6U << 29);
    EXPECT_EQ(summed<std::int64_t>(comm, PASSING_INT64, -static_cast<std::int64_t>(wide(40))),
              -(std::int64_t{6} << 40));
    EXPECT_EQ(summed<std::uint64_t>(comm, PASSING_UINT64, wide(61)), std::uint64_t{6} << 61);
    EXPECT_EQ(summed<std::uint8_t>(comm, PASSING_BOOLEAN, rank == 1 ? 5 : 0), 1);
  });
}

TEST(CApi, EveryReductionOfThreeRanks) {
  in_group([](passing_comm* comm, std::uint32_t rank) {
    const std::int32_t given = std::array{14, 10, 9}[rank];
    const std::map<passing_reduction, std::int32_t> expected = {
        {PASSING_SUM, 33}, {PASSING_AVERAGE, 11}, {PASSING_PRODUCT, 1260}, {PASSING_MIN, 9},
        {PASSING_MAX, 14}, {PASSING_BIT_AND, 8},  {PASSING_BIT_OR, 15},    {PASSING_BIT_XOR, 13}};
    for (const auto& [reduction, result] : expected) {
      std::int32_t got = 0;
      EXPECT_EQ(passing_all_reduce(comm, &given, &got, 1, PASSING_INT32, reduction, 0, nullptr), PASSING_OK)
          << passing_error();
      EXPECT_EQ(got, result) << reduction;
    }
  });
}

/// Arguments that are right for one rank alone, unless a test changes them.
struct Arguments {
  passing_comm* comm;
  const float* input;
  float* output;
  passing_type type = PASSING_FLOAT32;
  passing_reduction reduction = PASSING_SUM;
  std::uint32_t root = 0;
  std::size_t count = 1;
  const std::size_t* outgoing = &count;
  const std::size_t* incoming = &count;
  double timeout = 0;
  passing_op** op = nullptr;
};

using Call = passing_status (*)(const Arguments&);
const std::map<std::string, Call> kReducing = {
    {"reduce",
     [](const Arguments& a) {
       return passing_reduce(a.comm, a.input, a.output, a.count, a.type, a.reduction, a.root, a.timeout,
                             a.op);
     }},
    {"reduce_scatter",
     [](const Arguments& a) {
       return passing_reduce_scatter(a.comm, a.input, a.output, a.count, a.type, a.reduction, a.timeout,
                                     a.op);
     }},
};
const std::map<std::string, Call> kMoving = {
    {"all_gather",
     [](const Arguments& a) {
       return passing_all_gather(a.comm, a.input, a.output, a.count, a.type, a.timeout, a.op);
     }},
    {"all_gatherv",
     [](const Arguments& a) {
       return passing_all_gatherv(a.comm, a.input, a.output, a.incoming, a.type, a.timeout, a.op);
     }},
    {"gather",
     [](const Arguments& a) {
       return passing_gather(a.comm, a.input, a.output, a.count, a.type, a.root, a.timeout, a.op);
     }},
    {"scatter",
     [](const Arguments& a) {
       return passing_scatter(a.comm, a.input, a.output, a.count, a.type, a.root, a.timeout, a.op);
     }},
    {"all_to_all",
     [](const Arguments& a) {
       return passing_all_to_all(a.comm, a.input, a.output, a.count, a.type, a.timeout, a.op);
     }},
    {"all_to_allv",
     [](const Arguments& a) {
       return passing_all_to_allv(a.comm, a.input, a.outgoing, a.output, a.incoming, a.type, a.timeout, a.op);
     }},
};

class CApiArguments : public testing::Test {
 protected:
  /// Makes a call with one thing changed.
  template <class Change>
  passing_status changed(Call call, const Change& change) {
    Arguments arguments{.comm = alone_.comm, .input = &input_, .output = &output_};
    change(arguments);
    return call(arguments);
  }

  Alone alone_;
  float input_ = 2.5;
  float output_ = 0;
};

TEST_F(CApiArguments, OfEveryCollectiveAreChecked) {
  std::map<std::string, Call> calls = kReducing;
  calls.insert(kMoving.begin(), kMoving.end());
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    output_ = 0;
    EXPECT_EQ(changed(call, [](Arguments&) {}), PASSING_OK) << passing_error();
    EXPECT_EQ(output_, 2.5);
    expect_refused(changed(call, [](Arguments& a) { a.comm = nullptr; }), "comm is null: must be given");
    for (const int bad : {-1, 0, 14, 257}) {
      expect_refused(
          changed(call, [&](Arguments& a) { a.type = bad; }),
          "type is " + std::to_string(bad) + ": must be PASSING_FLOAT32 (1) to PASSING_BOOLEAN (13)");
    }
    expect_refused(changed(call, [](Arguments& a) { a.timeout = -1; }),
                   "timeout is -1 seconds: must be above 0, at most 1000000000, or 0 for the communicator's");
    expect_refused(changed(call, [](Arguments& a) { a.input = nullptr; }),
                   name + ": the input buffer is null");
    expect_refused(changed(call, [](Arguments& a) { a.output = nullptr; }),
                   name + ": the output buffer is null");
    expect_refused(changed(call, [](Arguments& a) { a.count = std::size_t(-1); }),
                   name + ": count is 18446744073709551615: must be at most 2^48 (was it negative?)");
  }
  EXPECT_EQ(passing_check(alone_.comm), PASSING_OK);
}

TEST_F(CApiArguments, ReductionsAreChecked) {
  for (const auto& [name, call] : kReducing) {
    for (const int bad : {0, 9, 257}) {
      expect_refused(
          changed(call, [&](Arguments& a) { a.reduction = bad; }),
          "reduction is " + std::to_string(bad) + ": must be PASSING_SUM (1) to PASSING_BIT_XOR (8)");
    }
    expect_refused(changed(call, [](Arguments& a) { a.reduction = PASSING_BIT_AND; }),
                   name + ": float32 cannot be reduced by bit_and: see the table in docs/numerics.md");
  }
}

TEST_F(CApiArguments, RootsAreChecked) {
  for (const auto& [name, call] : std::map<std::string, Call>{{"reduce", kReducing.at("reduce")},
                                                              {"gather", kMoving.at("gather")},
                                                              {"scatter", kMoving.at("scatter")}}) {
    const std::string message = name + ": root is 1: must be a rank, 0 to 0";
    expect_refused(changed(call, [](Arguments& a) { a.root = 1; }), message);
    passing_op* op = nullptr;
    EXPECT_EQ(changed(call,
                      [&](Arguments& a) {
                        a.root = 1;
                        a.op = &op;
                      }),
              PASSING_OK);
    expect_refused(passing_wait(op), message);
  }
}

TEST_F(CApiArguments, CountsAreChecked) {
  const std::size_t two = 2;
  expect_refused(changed(kMoving.at("all_gatherv"), [](Arguments& a) { a.incoming = nullptr; }),
                 "counts is null: must be given");
  const Call all_to_allv = kMoving.at("all_to_allv");
  expect_refused(changed(all_to_allv, [](Arguments& a) { a.outgoing = nullptr; }),
                 "outgoing is null: must be given");
  expect_refused(changed(all_to_allv, [](Arguments& a) { a.incoming = nullptr; }),
                 "incoming is null: must be given");
  expect_refused(changed(all_to_allv, [&](Arguments& a) { a.outgoing = &two; }),
                 "all_to_allv: 2 elements for this rank itself, but 1 from it");
}

}  // namespace
}  // namespace passing::test
