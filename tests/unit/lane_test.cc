// docs/protocol.md sections 5 to 8, rule by rule, packets handed over by hand.
#include "endpoint/lane.h"

#include <cmath>

#include "unit/bench.h"
#include "wire/tag.h"

namespace passing::test {
namespace {

using wire::Type;

std::vector<Type> types_of(const std::vector<Packet>& packets) {
  std::vector<Type> types;
  for (const Packet& p : packets) types.push_back(header_of(p).type);
  return types;
}

TEST(Lane, Section51AnOperationOfZeroElementsIsOneEmptyPacketPerLane) {
  endpoint::Config config = small_config();
  config.lanes = 3;
  Bench bench(config);
  std::vector<float> nothing;
  ASSERT_TRUE(bench.submit(0, nothing));
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    const auto sent = bench.sends(0, lane);
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(header_of(sent[0]).count, 0);
  }
  EXPECT_FALSE(bench[0].next_completion()) << "not done before the others are here";
}

TEST(Lane, Section51ALaneWithoutBlocksCarriesAnEmptyOne) {
  endpoint::Config config = small_config();
  config.lanes = 4;
  Bench bench(config);
  std::vector<float> a(5, 1.0F);  // two blocks for four lanes
  std::vector<float> b(5, 2.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, b));
  bench.run();
  ASSERT_TRUE(bench[0].next_completion()->outcome);
  EXPECT_EQ(a, std::vector<float>(5, 3.0F));
  for (std::uint32_t lane = 0; lane < 4; ++lane) EXPECT_GE(bench[0].lane(lane).counters().chunks, 1U);
}

TEST(Lane, Section56ARetransmissionRepeatsTheWordItCarriedFirst) {
  Bench bench(small_config());
  std::vector<float> first(4, 1.0F);
  ASSERT_TRUE(bench.submit(0, first) && bench.submit(1, first));
  // Exponents are exchanged; then the first data packet carries the word of block 2.
  const auto exponent0 = bench.sends(0);
  const auto exponent1 = bench.sends(1);
  bench.carry(exponent0[0]);
  bench.carry(exponent1[0]);
  const auto data = bench.sends(0);
  ASSERT_FALSE(data.empty());
  ASSERT_EQ(header_of(data[0]).word, PASSING_WORD_UNKNOWN) << "block 2 is not submitted yet";
  std::vector<float> second(12, 1.0F);
  ASSERT_TRUE(bench.submit(0, second));
  bench.sends(0);
  bench.now += kSecond;
  const auto again = bench.sends(0);
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(header_of(again[0]).sequence, header_of(data[0]).sequence);
  EXPECT_EQ(header_of(again[0]).flags, PASSING_FLAG_AGAIN);
  EXPECT_EQ(header_of(again[0]).word, PASSING_WORD_UNKNOWN);
  EXPECT_EQ(header_of(again[0]).tag, header_of(data[0]).tag);
}

TEST(Lane, Section57TheLastChunkOfEachSlotIsKeptUntilTheClose) {
  Bench bench(small_config());
  std::vector<float> a(4, 1.0F);
  std::vector<float> b(4, 2.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, b));
  bench.run();
  // Chunk 0 is the exponent, 1 and 2 are data.
  const std::int32_t* sums = nullptr;
  const auto& kept = bench[0].lane(0).retained(1, &sums);
  ASSERT_TRUE(kept.valid);
  EXPECT_EQ(kept.chunk, 1U);
  EXPECT_EQ(kept.count, 2);
  EXPECT_EQ(sums[0], 3 << 27) << "3.0 with s = 157 - 128 - 2";
  ASSERT_TRUE(bench[0].leave(100 * kSecond) && bench[1].leave(100 * kSecond));
  bench.run();
  EXPECT_FALSE(bench[0].lane(0).retained(1, &sums).valid);
}

TEST(Lane, Section61TheWindowCountsFromTheOldestChunkWithoutAResult) {
  // The result of chunk 70 never comes. All others complete, so few packets are in flight, yet nobody
  // may send further than the window from chunk 70.
  endpoint::Config config = small_config(2);
  config.slots = 512;
  Bench bench(config);
  std::vector<std::int32_t> a(4000, 1);
  std::vector<std::int32_t> b(4000, 1);
  for (std::uint16_t m = 0; m < 2; ++m) {
    std::vector<std::int32_t>& data = m == 0 ? a : b;
    ASSERT_TRUE(bench[m].submit({.type = numeric::DataType::int32,
                                 .elements = data.size(),
                                 .input = data.data(),
                                 .output = data.data(),
                                 .deadline = kSecond}));
  }
  std::uint64_t furthest = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::uint16_t m = 0; m < 2; ++m) {
      const std::uint64_t base = std::min<std::uint64_t>(70, bench[m].lane(0).counters().results);
      for (const Packet& p : bench.sends(m)) {
        EXPECT_LT(header_of(p).sequence, base + bench[m].lane(0).window());
        furthest = std::max<std::uint64_t>(furthest, header_of(p).sequence);
        if (header_of(p).sequence != 70) bench.carry(p);
      }
    }
  }
  EXPECT_GT(furthest, 70U + 64);
  EXPECT_LT(furthest, 70U + 512 - 1) << "the window must not have reached the slots, or nothing is shown";
}

TEST(Lane, Section71OnlyTheFirstDataPacketOfABlockCarriesAWord) {
  Bench bench(small_config(1));
  std::vector<float> data(16, 1.0F);
  ASSERT_TRUE(bench.submit(0, data));
  std::vector<std::uint16_t> words;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Packet& p : bench.sends(0)) {
      if (header_of(p).count > 0) words.push_back(header_of(p).word);
      bench.carry(p);
      moved = true;
    }
  }
  // Blocks 0 to 3, two packets each; D = 2, so blocks 2 and 3 ride on 0 and 1.
  const std::uint16_t unknown = PASSING_WORD_UNKNOWN;
  EXPECT_EQ(words, (std::vector<std::uint16_t>{127, 0, 127, 0, unknown, 0, unknown, 0}));
}

TEST(Lane, Section73AnIdleStartInsertsExponentsInOneBurst) {
  endpoint::Config config = small_config();
  config.lookahead = 5;
  Bench bench(config);
  std::vector<float> data(100, 1.0F);
  ASSERT_TRUE(bench.submit(0, data) && bench.submit(1, data));
  EXPECT_EQ(bench.sends(0).size(), 5U) << "D blocks at once";
  Bench small(config);
  std::vector<float> short_data(12, 1.0F);
  ASSERT_TRUE(small.submit(0, short_data));
  EXPECT_EQ(small.sends(0).size(), 3U) << "at most the blocks of the operation";
}

TEST(Lane, Section73Int32IgnoresUnknown) {
  Bench bench(small_config());
  std::vector<std::int32_t> data(6, 1);
  ASSERT_TRUE(bench[0].submit({.type = numeric::DataType::int32,
                               .elements = 6,
                               .input = data.data(),
                               .output = data.data(),
                               .deadline = kSecond}));
  const auto sent = bench.sends(0);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(header_of(sent[0]).count, 2);
  EXPECT_EQ(bench[0].lane(0).counters().exponent_chunks, 0U);
}

TEST(Lane, Section74DataOfANonfiniteBlockWaitsForItsFirstClassResult) {
  Bench bench(small_config(2));
  std::vector<float> a = {1.0F, NAN, 1.0F, 1.0F, 2.0F, 2.0F, 2.0F, 2.0F};
  std::vector<float> b(8, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, b));
  for (std::uint16_t m = 0; m < 2; ++m) {
    for (const Packet& p : bench.sends(m)) bench.carry(p);  // the exponents of blocks 0 and 1
  }
  const auto sent = bench.sends(0);
  std::vector<std::uint32_t> sequences;
  for (const Packet& p : sent) sequences.push_back(header_of(p).sequence);
  // 0, 1 exponents; 2, 3 classes; 4, 5 data of block 0 deferred; 6, 7 data of block 1 overtake.
  EXPECT_EQ(sequences, (std::vector<std::uint32_t>{2, 3, 6, 7}));
  EXPECT_EQ(header_of(sent[0]).word, 127) << "the finite word";
  EXPECT_EQ(header_of(sent[1]).word, PASSING_WORD_NONE);
  for (const Packet& p : sent) bench.carry(p);
  bench.run();
  ASSERT_TRUE(bench[0].next_completion()->outcome);
  EXPECT_TRUE(std::isnan(a[1]));
  EXPECT_EQ(a[0], 2.0F);
  EXPECT_EQ(a[7], 3.0F);
}

TEST(Lane, Section56InPlaceOutputIsWrittenOnlyWhenClassAndSumAreThere) {
  Bench bench(small_config(1));
  std::vector<float> a = {NAN, 5.0F};
  ASSERT_TRUE(bench.submit(0, a));
  bench.carry(bench.sends(0)[0]);  // the exponent
  const auto classes = bench.sends(0);
  ASSERT_EQ(classes.size(), 1U);
  const Packet class_result = bench.at_switch(classes[0]);
  bench.at_member(0, class_result);
  const auto data = bench.sends(0);
  ASSERT_EQ(data.size(), 1U);
  EXPECT_TRUE(std::isnan(a[0])) << "the class chunk could still have to be sent again";
  bench.carry(data[0]);
  EXPECT_TRUE(bench[0].next_completion()->outcome);
  EXPECT_TRUE(std::isnan(a[0]));
  EXPECT_EQ(a[1], 5.0F);
}

TEST(Lane, Section82ChunksBeforeAPoisonedOneGoOn) {
  // Rehearsal seed 6559: chunk 0 of member 1 is lost, chunk 1 is poisoned first.
  Bench bench(small_config(3));
  std::vector<float> a(8, 1.0F);
  std::vector<float> odd(9, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, odd) && bench.submit(2, a));
  const auto from0 = bench.sends(0);
  const auto from1 = bench.sends(1);
  bench.sends(2);  // all lost
  for (const Packet& p : from0) bench.carry(p);
  bench.carry(from1[1]);  // poisons chunk 1; members 0 and 1 hear of it
  EXPECT_FALSE(bench[0].next_completion()) << "not settled: chunk 0 has neither result nor notice";
  EXPECT_FALSE(bench[1].next_completion());
  for (int round = 0; round < 5; ++round) {
    bench.now += kSecond;
    bench.run();
  }
  for (std::size_t m = 0; m < 3; ++m) {
    const auto done = bench[m].next_completion();
    ASSERT_TRUE(done) << "member " << m << " hangs";
    ASSERT_FALSE(done->outcome);
    EXPECT_EQ(done->outcome.error().code, ErrorCode::disagreement);
    EXPECT_EQ(done->outcome.error().members, (std::vector<std::uint16_t>{0, 1}));
  }
}

TEST(Lane, Section82AFailureOnOneLaneDoesNotStopWhatOthersWaitForOnAnother) {
  endpoint::Config config = small_config(3);
  config.lanes = 2;
  Bench bench(config);
  std::vector<float> a(16, 1.0F);
  std::vector<float> odd(17, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, odd) && bench.submit(2, a));
  // Member 0 hears of it on lane 0 only, member 1 on lane 1 only, member 2 not at all.
  std::vector<Packet> sent[3][2];
  for (std::uint16_t m = 0; m < 3; ++m) {
    for (std::uint32_t l = 0; l < 2; ++l) sent[m][l] = bench.sends(m, l);
  }
  bench.at_switch(sent[1][0][1]);
  bench.at_member(0, bench.at_switch(sent[0][0][1]));
  bench.at_switch(sent[0][1][1]);
  bench.at_member(1, bench.at_switch(sent[1][1][1]));
  bench.now += kSecond;
  EXPECT_FALSE(bench.sends(0, 1).empty()) << "member 0 must go on with lane 1: others may wait for it there";
  EXPECT_FALSE(bench.sends(1, 0).empty()) << "and member 1 with lane 0";
  for (int round = 0; round < 8; ++round) {
    bench.now += kSecond;
    bench.run();
  }
  for (std::size_t m = 0; m < 3; ++m) {
    const auto done = bench[m].next_completion();
    ASSERT_TRUE(done) << "member " << m << " hangs";
    ASSERT_FALSE(done->outcome);
    EXPECT_EQ(done->outcome.error().code, ErrorCode::disagreement);
  }
}

// A dataplane may have no room for a result in the frame of an ABORT. (XDP on a veth has none.)
TEST(Lane, Section83ACompleteChunkIsAskedForByItsContributionToo) {
  Bench bench(small_config(2));
  std::vector<float> a(2, 1.0F);
  ASSERT_TRUE(bench.submit(0, a, kSecond) && bench.submit(1, a, kSecond * 50));
  // The scale's chunk gets through; of the next one member 0 never sees the result.
  for (const bool lost : {false, true}) {
    for (std::uint16_t m = 0; m < 2; ++m) {
      for (const Packet& packet : bench.sends(m)) {
        bool everyone = false;
        const Packet answer = bench.at_switch(packet, &everyone);
        if (everyone) bench.at_member(1, answer);
        if (everyone && !lost) bench.at_member(0, answer);
      }
    }
  }
  ASSERT_TRUE(bench[1].next_completion());
  bench.now = kSecond;
  const auto sent = bench.sends(0);
  ASSERT_EQ(types_of(sent), (std::vector<Type>{Type::abort, Type::status_request}));
  ASSERT_EQ(header_of(bench.at_switch(sent[0])).type, Type::result);  // lost
  bench.at_member(0, bench.at_switch(sent[1]));
  const auto again = bench.sends(0);
  ASSERT_EQ(types_of(again), (std::vector<Type>{Type::contribution}));
  bench.at_member(0, bench.at_switch(again[0]));
  const auto done = bench[0].next_completion();
  ASSERT_TRUE(done && done->outcome);
}

TEST(Lane, Section83AtTheDeadlineABaseChunkIsAbortedAndTheMissingAreNamed) {
  Bench bench(small_config(3));
  std::vector<float> a(4, 1.0F);
  ASSERT_TRUE(bench.submit(0, a, kSecond) && bench.submit(1, a, kSecond * 50));
  bench.run();
  bench.now = kSecond;
  const auto sent = bench.sends(0);
  EXPECT_EQ(types_of(sent), (std::vector<Type>{Type::abort, Type::status_request}));
  for (const Packet& p : sent) bench.carry(p);
  for (std::size_t m = 0; m < 2; ++m) {
    const auto done = bench[m].next_completion();
    ASSERT_TRUE(done);
    ASSERT_FALSE(done->outcome);
    EXPECT_EQ(done->outcome.error().code, ErrorCode::deadline);
    EXPECT_EQ(done->outcome.error().members, (std::vector<std::uint16_t>{2}));
    EXPECT_EQ(done->outcome.error().message,
              "operation 0 (sum of 4 float32) was aborted at the deadline of member 0; missing: member 2");
  }
}

TEST(Lane, Section83AResultThatIsThereAtTheDeadlineIsAccepted) {
  Bench bench(small_config(2));
  std::vector<std::int32_t> a = {1, 2};
  std::vector<std::int32_t> b = {10, 20};
  const auto submit = [&](std::uint16_t m, std::vector<std::int32_t>& data) {
    return bench[m].submit({.type = numeric::DataType::int32,
                            .elements = 2,
                            .input = data.data(),
                            .output = data.data(),
                            .deadline = kSecond});
  };
  ASSERT_TRUE(submit(0, a) && submit(1, b));
  bench.at_switch(bench.sends(0)[0]);
  bench.at_member(1, bench.at_switch(bench.sends(1)[0]));  // member 0's copy of the result is lost
  ASSERT_TRUE(bench[1].next_completion()->outcome);
  bench.now = kSecond;
  for (const Packet& p : bench.sends(0)) bench.carry(p);
  ASSERT_TRUE(bench[0].next_completion()->outcome);
  EXPECT_EQ(a, (std::vector<std::int32_t>{11, 22}));
}

TEST(Lane, Section83WithoutAnyAnswerTheOperationFailsAfterTheGracePeriod) {
  Bench bench(small_config(2));
  std::vector<float> a(4, 1.0F);
  ASSERT_TRUE(bench.submit(0, a, kSecond));
  Time ended = 0;
  while (!ended && bench.now < 100 * kSecond) {
    bench.sends(0);  // all lost
    if (const auto done = bench[0].next_completion()) {
      ended = bench.now;
      ASSERT_FALSE(done->outcome);
      EXPECT_EQ(done->outcome.error().code, ErrorCode::unreachable);
    } else {
      ASSERT_TRUE(bench[0].next_timer()) << "nothing would ever happen again";
      bench.now = *bench[0].next_timer();
    }
  }
  EXPECT_GE(ended, kSecond + small_config().grace);
  // The timer backs off, but not past the end.
  EXPECT_LE(ended, kSecond + small_config().grace + kMillisecond);
}

TEST(Lane, Section84ACloseWaitsForEveryEarlierResult) {
  Bench bench(small_config(2));
  std::int32_t values[2] = {1, 2};
  for (std::uint16_t m = 0; m < 2; ++m) {
    ASSERT_TRUE(bench[m].submit({.type = numeric::DataType::int32,
                                 .elements = 1,
                                 .input = &values[m],
                                 .output = &values[m],
                                 .deadline = 100 * kSecond}));
    ASSERT_TRUE(bench[m].leave(100 * kSecond));
  }
  const auto sent = bench.sends(0);
  ASSERT_EQ(sent.size(), 1U) << "the data, and no close";
  for (const Packet& p : sent) bench.carry(p);
  bench.run();
  for (std::size_t m = 0; m < 2; ++m) {
    EXPECT_TRUE(bench[m].next_completion()->outcome);
    EXPECT_TRUE(bench[m].next_completion()->outcome);
    EXPECT_TRUE(bench[m].idle());
  }
}

TEST(Lane, Section84LeavingEarlyGivesBothSidesBothNames) {
  Bench bench(small_config(2));
  std::vector<float> a(4, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench[1].leave(100 * kSecond));
  bench.run();
  for (std::size_t m = 0; m < 2; ++m) {
    const auto done = bench[m].next_completion();
    ASSERT_TRUE(done);
    ASSERT_FALSE(done->outcome);
    EXPECT_EQ(done->outcome.error().members.size(), 2U);
  }
}

TEST(Lane, Section61WaitingForASlowMemberLeavesTheWindowAlone) {
  endpoint::Config config = small_config(2);
  config.slots = 256;
  Bench bench(config);
  std::vector<std::int32_t> a(4000, 1);
  const endpoint::Operation op{.type = numeric::DataType::int32,
                               .elements = a.size(),
                               .input = a.data(),
                               .output = a.data(),
                               .deadline = 100 * kSecond};
  ASSERT_TRUE(bench[0].submit(op));
  for (int i = 0; i < 50; ++i) {
    bench.run();
    bench.now += 20 * kMillisecond;
  }
  EXPECT_EQ(bench[0].lane(0).window(), 64U);
  // The slow member's first chunk completes; the rest is still to come from it, not lost.
  ASSERT_TRUE(bench[1].submit(op));
  bench.carry(bench.sends(1)[0]);
  for (int i = 0; i < 3; ++i) {
    bench.now += kMillisecond;
    bench.sends(0);
  }
  EXPECT_EQ(bench[0].lane(0).counters().retransmissions, 0U) << "nothing was lost";
}

TEST(Lane, Section62StatusSaysWhomWeWaitFor) {
  Bench bench(small_config(3));
  std::vector<float> a(4, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(2, a));
  for (int i = 0; i < 8; ++i) {
    bench.run();
    bench.now += kSecond;
  }
  EXPECT_EQ(bench[0].missing(), (std::vector<std::uint16_t>{1}));
  ASSERT_TRUE(bench.submit(1, a));
  bench.run();
  EXPECT_TRUE(bench[0].missing().empty());
}

TEST(Lane, Section62AnIdleMemberHasNoTimerAndNothingToSend) {
  Bench bench(small_config(2));
  EXPECT_FALSE(bench[0].next_timer());
  std::vector<float> a(40, 1.0F);
  std::vector<float> b(40, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, b));
  EXPECT_TRUE(bench[0].next_timer());
  bench.run();
  EXPECT_FALSE(bench[0].next_timer());
  bench.now += 1000 * kSecond;
  EXPECT_TRUE(bench.sends(0).empty());
}

TEST(Lane, Section62AGapInTheResultsIsSentAgainWithoutWaitingForTheTimer) {
  endpoint::Config config = small_config(2);
  config.lookahead = 8;
  Bench bench(config);
  std::vector<float> a(16, 1.0F);
  std::vector<float> b(16, 1.0F);
  ASSERT_TRUE(bench.submit(0, a) && bench.submit(1, b));
  const auto from0 = bench.sends(0);
  const auto from1 = bench.sends(1);
  ASSERT_EQ(from0.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) bench.at_switch(from0[i]);
  bench.now += 100 * kMicrosecond;
  for (std::size_t i = 1; i < 4; ++i) bench.carry(from1[i]);  // chunk 0 of member 1 is lost
  bench.now += 60 * kMicrosecond;
  const auto again = bench.sends(1);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(header_of(again[0]).sequence, 0U);
}

TEST(Lane, Section55ResultsThatAreNotOursAreDropped) {
  Bench bench(small_config(1));
  std::vector<float> a(4, 1.0F);
  ASSERT_TRUE(bench.submit(0, a));
  const Packet result = bench.at_switch(bench.sends(0)[0]);
  const auto refuse = [&](std::size_t offset, wire::Drop reason) {
    Packet bad = result;
    bad[offset] ^= std::byte{1};
    bench.members[0]->receive(bench.now, 0, switch_address(), bad);
    EXPECT_EQ(bench[0].lane(0).counters().drops[static_cast<std::size_t>(reason)], 1U)
        << wire::to_string(reason);
  };
  refuse(7, wire::Drop::unknown_job);
  refuse(15, wire::Drop::wrong_key);
  refuse(19, wire::Drop::wrong_epoch);
  refuse(27, wire::Drop::wrong_sequence);  // the tag
  refuse(33, wire::Drop::bad_member);
  refuse(34, wire::Drop::bad_lane);
  Address stranger = switch_address();
  stranger.port ^= 1;
  bench.members[0]->receive(bench.now, 0, stranger, result);
  EXPECT_EQ(bench[0].lane(0).counters().drops[static_cast<std::size_t>(wire::Drop::wrong_source)], 1U);
  EXPECT_EQ(bench[0].lane(0).counters().results, 0U);
  bench.at_member(0, result);
  bench.at_member(0, result);
  EXPECT_EQ(bench[0].lane(0).counters().results, 1U);
  EXPECT_EQ(bench[0].lane(0).counters().duplicates, 1U);
}

}  // namespace
}  // namespace passing::test
