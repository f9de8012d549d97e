// One judge whose neighbours say what the test lets them say: docs/faults.md sections 4 to 6.
#include <gtest/gtest.h>

#include "judge/judge.h"

namespace passing::judge {
namespace {

constexpr Duration kTimeout = 2 * kSecond;

/// Rank 0, and others who are all in the middle of what it is in the middle of; if they answer.
class Alone {
 public:
  explicit Alone(std::uint32_t size, bool answering)
      : judge(group(size)), size_(size), answering_(answering) {}

  /// Until then, as its caller would.
  void until(Time end) {
    while (now < end) {
      now = std::clamp(judge.next_timer(), now + kMillisecond, end);
      judge.step(now);
      while (auto message = judge.next_message()) {
        if (answering_) answer(*message);
      }
    }
  }

  Judge judge;
  Time now = 0;

 private:
  static Judge::Group group(std::uint32_t size) {
    std::vector<std::string> names;
    for (std::uint32_t r = 0; r < size; ++r) names.push_back("rank " + std::to_string(r));
    return {.rank = 0,
            .size = size,
            .names = names,
            .describe = [](std::uint64_t number) { return "operation " + std::to_string(number); },
            .waiting_for = [] { return std::vector<std::uint16_t>{1}; }};
  }
  // Everyone is at operation 7.
  void answer(const Message& message) {
    const auto asked = News::decode(message.data);
    ASSERT_TRUE(asked);
    if (asked->proposal) return;
    News news{.round = asked->round, .entries = {}, .proposal = std::nullopt};
    for (std::uint16_t r = 1; r < size_; ++r) {
      news.entries.push_back({r, Record{.version = ++version_,
                                        .round = asked->round,
                                        .called = 8,
                                        .left = false,
                                        .turn = 7,
                                        .waits = {0},
                                        .lost = {}}});
    }
    judge.hear(now, message.to, news.encode());
  }

  std::uint32_t size_;
  bool answering_;
  std::uint32_t version_ = 0;
};

// Section 5, the roll call for a deadline is for that operation only.
TEST(Alone, AnOperationThatEndsInPatienceLeavesNoRollCallBehind) {
  Alone alone(3, true);
  alone.judge.called(8);
  alone.judge.turn({7, 0, kTimeout, kSecond / 2});
  alone.until(kTimeout + 100 * kMillisecond);
  ASSERT_TRUE(alone.judge.is_troubled()) << "everyone is in the middle of it: patience";
  ASSERT_FALSE(alone.judge.has_proposal());
  alone.judge.called(9);
  alone.judge.turn({8, alone.now, alone.now + 10 * kTimeout, 0});
  EXPECT_FALSE(alone.judge.is_troubled());
  // Section 4: what looks wrong is held again, since nobody has been asked for this operation.
  const Time begun = alone.now;
  alone.judge.problem(alone.now, {ErrorCode::unreachable, "no answer from the switch", {}}, false);
  alone.until(begun + kExplanation - 10 * kMillisecond);
  EXPECT_FALSE(alone.judge.has_proposal());
  alone.until(begun + kExplanation + 10 * kMillisecond);
  EXPECT_TRUE(alone.judge.has_proposal());
}

TEST(Alone, ARankWithoutOperationsHasNoRollCall) {
  Alone alone(3, true);
  alone.judge.called(8);
  alone.judge.turn({7, 0, kTimeout, kSecond / 2});
  alone.until(kTimeout + 100 * kMillisecond);
  alone.judge.idle();
  EXPECT_FALSE(alone.judge.is_troubled());
}

// Section 6: neighbours that say nothing are waited for, but not beyond what a late message can wait.
TEST(Alone, ALateMessageWaitsForNobody) {
  for (const bool late : {false, true}) {
    Alone alone(4, false);
    if (late) alone.judge.due(900 * kMillisecond);
    alone.until(500 * kMillisecond);
    alone.judge.problem(alone.now, {ErrorCode::deadline, "waiting for rank 1", {1}}, true);
    alone.until(905 * kMillisecond);
    EXPECT_EQ(alone.judge.decision().has_value(), late);
    alone.until(1505 * kMillisecond);
    ASSERT_TRUE(alone.judge.decision());
    EXPECT_NE(alone.judge.decision()->error.message.find("not confirmed by"), std::string::npos);
  }
}

// Section 4: a second roll call that would be cut short is not opened.
TEST(Alone, NobodyIsAskedAgainTooLate) {
  Alone alone(3, true);
  alone.judge.called(8);
  alone.judge.turn({7, 0, kTimeout, kSecond / 2});
  alone.until(kTimeout + 350 * kMillisecond);
  alone.judge.lost(alone.now, 1, "reset", Judge::Link::data);
  alone.until(kTimeout + 605 * kMillisecond);
  ASSERT_TRUE(alone.judge.has_proposal());
  alone.until(kTimeout + kSecond);
  ASSERT_TRUE(alone.judge.decision());
  const Error& error = alone.judge.decision()->error;
  EXPECT_EQ(error.code, ErrorCode::peer_lost);
  EXPECT_EQ(error.members, (std::vector<std::uint16_t>{0, 1})) << "both ends, not a rank that has answered";
}

}  // namespace
}  // namespace passing::judge
