// The member as a whole: order, errors and bad input (docs/protocol.md sections 5.1 and 8).
#include "endpoint/endpoint.h"

#include "unit/bench.h"

namespace passing::test {
namespace {

using numeric::DataType;
using numeric::Reduction;

TEST(Endpoint, Section81OperationsCompleteInOrder) {
  endpoint::Config config = small_config(2);
  config.lanes = 2;
  Bench bench(config);
  std::vector<std::vector<float>> data(10, std::vector<float>(20, 1.0F));
  for (int op = 0; op < 5; ++op) {
    ASSERT_EQ(*bench.submit(0, data[op]), static_cast<std::uint64_t>(op));
    ASSERT_TRUE(bench.submit(1, data[5 + op]));
  }
  bench.run();
  for (std::uint64_t op = 0; op < 5; ++op) EXPECT_EQ(bench[0].next_completion()->number, op);
  EXPECT_FALSE(bench[0].next_completion());
}

TEST(Endpoint, Section51NumbersOfOtherOperationsCountToo) {
  Bench bench(small_config(2));
  std::vector<float> a(4, 1.0F);
  bench[0].reserve_number();  // member 0 did one host to host that member 1 did not
  EXPECT_EQ(*bench.submit(0, a), 1U);
  EXPECT_EQ(*bench.submit(1, a), 0U);
  bench.run();
  for (std::size_t m = 0; m < 2; ++m) {
    const auto done = bench[m].next_completion();
    ASSERT_FALSE(done->outcome);
    EXPECT_EQ(done->outcome.error().code, ErrorCode::disagreement);
  }
}

TEST(Endpoint, Section82EveryKindOfDisagreementNamesBothSidesOnEveryMember) {
  using endpoint::Operation;
  std::vector<float> buffer(100, 1.0F);
  const Operation agreed{.type = DataType::float32,
                         .reduction = Reduction::average,
                         .elements = 8,
                         .divisor = 2,
                         .input = buffer.data(),
                         .output = buffer.data(),
                         .deadline = 100 * kSecond};
  const auto with = [&](auto change) {
    Operation odd = agreed;
    change(odd);
    return odd;
  };
  const Operation odd_ones[] = {with([](Operation& o) { o.elements = 9; }),
                                with([](Operation& o) { o.elements = 0; }),
                                with([](Operation& o) { o.elements = 1; }),
                                with([](Operation& o) { o.type = DataType::int32; }),
                                with([](Operation& o) { o.type = DataType::bfloat16; }),
                                with([](Operation& o) { o.type = DataType::float16; }),
                                with([](Operation& o) { o.reduction = Reduction::sum; }),
                                with([](Operation& o) { o.divisor = 3; })};
  for (const Operation& odd : odd_ones) {
    Bench bench(small_config(3));
    std::vector<float> copies[3] = {buffer, buffer, buffer};
    for (std::uint16_t m = 0; m < 3; ++m) {
      Operation mine = m == 1 ? odd : agreed;
      mine.input = mine.output = copies[m].data();
      ASSERT_TRUE(bench[m].submit(mine));
    }
    bench.run();
    for (std::size_t m = 0; m < 3; ++m) {
      const auto done = bench[m].next_completion();
      ASSERT_TRUE(done) << "member " << m << " hangs";
      ASSERT_FALSE(done->outcome) << "member " << m << " returned success";
      EXPECT_EQ(done->outcome.error().code, ErrorCode::disagreement);
      EXPECT_EQ(done->outcome.error().members, (std::vector<std::uint16_t>{0, 1}));
    }
  }
}

// Members whose configurations differ disagree on every operation: never a sum.
TEST(Endpoint, Section23DifferentGeometriesAreADisagreement) {
  using endpoint::Config;
  void (*const changes[])(Config&) = {[](Config& c) { c.tree_members = 8; },
                                      [](Config& c) { c.lookahead = 1; },
                                      [](Config& c) { c.order = endpoint::PayloadOrder::big; }};
  for (const auto change : changes) {
    for (const DataType type : {DataType::float32, DataType::int32}) {
      Bench bench(small_config(2));
      Config odd = small_config(2);
      odd.member = 1;
      odd.switch_addresses.assign(1, switch_address());
      change(odd);
      bench.members[1] = std::move(*endpoint::Endpoint::create(odd));
      std::vector<float> data[2] = {std::vector<float>(4, 1.0F), std::vector<float>(4, 1.0F)};
      for (std::uint16_t m = 0; m < 2; ++m) {
        ASSERT_TRUE(bench[m].submit({.type = type,
                                     .elements = 4,
                                     .input = data[m].data(),
                                     .output = data[m].data(),
                                     .deadline = 100 * kSecond}));
      }
      bench.run();
      for (std::size_t m = 0; m < 2; ++m) {
        const auto done = bench[m].next_completion();
        ASSERT_TRUE(done);
        ASSERT_FALSE(done->outcome) << "member " << m << " returned success";
        EXPECT_EQ(done->outcome.error().code, ErrorCode::disagreement);
      }
    }
  }
}

TEST(Endpoint, Section82TheErrorSaysWhoAndWhat) {
  endpoint::Config config = small_config(2);
  config.names = {"rank 0 at 10.0.0.1", "rank 1 at 10.0.0.2"};
  Bench bench(config);
  std::vector<float> a(8, 1.0F);
  std::vector<float> b(9, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, b));
  bench.run();
  EXPECT_EQ(
      bench[1].next_completion()->outcome.error().message,
      "rank 0 at 10.0.0.1 and rank 1 at 10.0.0.2 submitted different operations; rank 1 at 10.0.0.2 has "
      "operation 0 (sum of 9 float32) here");
}

TEST(Endpoint, Section82AfterAFailureLaterCallsGetTheSameError) {
  Bench bench(small_config(2));
  std::vector<float> a(8, 1.0F);
  std::vector<float> b(9, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, b));
  bench.run();
  const auto refused = bench.submit(0, a);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::disagreement);
  EXPECT_FALSE(bench[0].leave(kSecond));
}

TEST(Endpoint, Section85TheEndOfAnEpochFailsEverythingIncomplete) {
  Bench bench(small_config(2));
  std::vector<float> a(8, 1.0F);
  ASSERT_TRUE(bench.submit(0, a));
  bench.run();
  bench[0].end_epoch({ErrorCode::epoch_ended, "member 1 restarted", {1}});
  const auto done = bench[0].next_completion();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->outcome.error().message, "member 1 restarted");
  bench.now += 1000 * kSecond;
  EXPECT_TRUE(bench.sends(0).empty());
  EXPECT_FALSE(bench[0].next_timer());
}

TEST(Endpoint, Section85NothingIsSentAfterTheEndOfAnEpoch) {
  Bench bench(small_config(2));
  std::vector<float> a(8, 1.0F);
  ASSERT_TRUE(bench.submit(0, a, kSecond));
  bench.run();
  bench.now = kSecond;
  std::byte out[wire::packet_bytes(PASSING_MAX_ELEMENTS)];
  ASSERT_GT(bench[0].next_packet(bench.now, 0, out), 0U) << "the abort; a status request would follow";
  bench[0].end_epoch({ErrorCode::epoch_ended, "over", {}});
  EXPECT_EQ(bench[0].next_packet(bench.now, 0, out), 0U);
}

TEST(Endpoint, Section83LaterDeadlinesDoNotProlongTheGracePeriod) {
  Bench bench(small_config(2));
  std::vector<float> a(4, 1.0F);
  for (int second = 0; second < 30; ++second) {
    static_cast<void>(bench.submit(0, a, bench.now + 3 * kSecond));
    for (int i = 0; i < 100; ++i) {
      bench.sends(0);  // the switch is dead
      bench.now += 10 * kMillisecond;
    }
    if (const auto done = bench[0].next_completion()) {
      EXPECT_EQ(done->number, 0U);
      EXPECT_EQ(done->outcome.error().code, ErrorCode::unreachable);
      EXPECT_LE(bench.now, (3 + 5 + 3) * kSecond);
      return;
    }
  }
  FAIL() << "the first operation never ends";
}

TEST(Endpoint, BadInputIsOneSentence) {
  Bench bench(small_config(2));
  float value = 1;
  const auto complaint = [&](endpoint::Operation op) {
    op.deadline = kSecond;
    return bench[0].submit(op).error().message;
  };
  EXPECT_EQ(complaint({.elements = 3, .output = &value}), "input is null: 3 elements need a buffer");
  EXPECT_EQ(complaint({.elements = 3, .input = &value}), "output is null: 3 elements need a buffer");
  EXPECT_EQ(complaint({.type = DataType::none}), "type is none: must be a data type");
  EXPECT_EQ(complaint({.divisor = 0}), "divisor is 0: must be 1 to 4194303");
  float buffer[8];
  EXPECT_EQ(complaint({.elements = 4, .input = buffer, .output = buffer + 2}),
            "output overlaps input: must be the same buffer or a separate one");
  EXPECT_EQ(complaint({.elements = UINT64_MAX, .input = &value, .output = &value}),
            "elements is 18446744073709551615: must be 0 to 33554432");
  EXPECT_EQ(bench[0].submit({}).error().message, "deadline is not set: every operation needs one");
  ASSERT_TRUE(bench[0].leave(kSecond));
  EXPECT_EQ(complaint({.elements = 1, .input = &value, .output = &value}),
            "this member has left the job: no more operations");
}

TEST(Endpoint, AnImpossibleConfigurationIsRefused) {
  endpoint::Config config = small_config(2);
  config.slots = 12;
  config.switch_addresses.resize(1);
  EXPECT_EQ(endpoint::Endpoint::create(config).error().message,
            "slots is 12: must be a power of two from 1 to 32768");
}

}  // namespace
}  // namespace passing::test
