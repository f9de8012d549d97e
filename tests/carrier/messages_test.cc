// docs/mesh.md: which message goes to which receive, of every length and in every order.
#include "carrier/carriers.h"

namespace passing::net {
namespace {

class Messages : public Carriers {};

const std::vector<std::size_t> kLengths = {0,          1,      7,         kSmall - 1, kSmall,
                                           kSmall + 1, 65'537, 1'000'003, 1 << 20};

TEST_P(Messages, OfEveryLengthBeforeAndAfterTheirReceive) {
  make(2);
  for (const bool receive_first : {false, true}) {
    for (const bool sure : {false, true}) {
      for (const std::size_t bytes : kLengths) {
        SCOPED_TRACE(bytes);
        const std::vector<char> out = pattern(bytes, bytes + 1);
        std::vector<char> room(bytes + 1, '#');  // one more, which must stay
        TransferPtr in;
        if (receive_first) {
          in = ranks[1]->recv(0, 5, kAll, room.data(), bytes, sure);
          calm();
          EXPECT_FALSE(in->ended());
        }
        const auto sent = ranks[0]->send(1, 5, out.data(), bytes);
        if (!receive_first) {
          calm();
          in = ranks[1]->recv(0, 5, kAll, room.data(), bytes, sure);
        }
        ASSERT_TRUE(eventually([&] { return in->ended() && sent->ended(); }));
        EXPECT_EQ(in->status, Status::done);
        EXPECT_EQ(sent->status, Status::done);
        EXPECT_EQ(in->bytes, bytes);
        EXPECT_EQ(in->tag, 5U);
        EXPECT_TRUE(std::equal(out.begin(), out.end(), room.begin()));
        EXPECT_EQ(room.back(), '#');
      }
    }
  }
  EXPECT_EQ(ranks[0]->sends_pending(), 0U);
}

// Small and large ones take turns. Receives come first, in the middle and last.
TEST_P(Messages, OfOneTagKeepTheirOrder) {
  make(2);
  for (const int turn : {0, 1, 2, 3, 4, 5}) {
    const std::size_t ahead = static_cast<std::size_t>(turn / 2) * 50;
    std::vector<std::vector<char>> out;
    std::vector<std::vector<char>> in;
    for (std::size_t i = 0; i < 100; ++i) {
      out.push_back(pattern(i % 3 == 0 ? 300'000 + i : i % 3 == 1 ? i : 20'000, i));
      in.emplace_back(out.back().size());
    }
    std::vector<TransferPtr> all;
    const auto receive = [&](std::size_t i) {
      all.push_back(ranks[1]->recv(0, 9, kAll, in[i].data(), in[i].size(), turn % 2 == 0));
    };
    for (std::size_t i = 0; i < ahead; ++i) receive(i);
    calm();
    for (const auto& each : out) all.push_back(ranks[0]->send(1, 9, each.data(), each.size()));
    if (ahead == 0) calm();
    for (std::size_t i = ahead; i < out.size(); ++i) receive(i);
    ASSERT_TRUE(eventually([&] { return all_ended(all); }));
    for (const auto& each : all) ASSERT_EQ(each->status, Status::done);
    ASSERT_EQ(in, out);
  }
}

// The small one may arrive earlier, but not take the receive of the large one: also where a mask would let
// it.
TEST_P(Messages, ASmallOneDoesNotTakeTheReceiveOfALargeOne) {
  make(2);
  constexpr std::uint64_t kOpen = kAll & ~std::uint64_t{0xFF};
  for (const std::uint64_t mask : {kAll, kOpen}) {
    for (const bool sure : {true, false}) {
      for (int round = 0; round < 20; ++round) {
        const std::vector<char> large = pattern(3'000'000, 1);
        const std::vector<char> small = pattern(100, 2);
        std::vector<char> first(large.size());
        std::vector<char> second(small.size());
        std::vector<TransferPtr> all = {ranks[1]->recv(0, 0x100, mask, first.data(), first.size(), sure),
                                        ranks[1]->recv(0, 0x100, mask, second.data(), second.size(), sure)};
        if (round % 2 == 0) calm();
        const std::uint64_t other = mask == kAll ? 0x100 : 0x107;
        all.push_back(ranks[0]->send(1, 0x100, large.data(), large.size()));
        all.push_back(ranks[0]->send(1, other, small.data(), small.size()));
        ASSERT_TRUE(eventually([&] { return all_ended(all); }));
        for (const auto& each : all) ASSERT_EQ(each->status, Status::done);
        ASSERT_EQ(first, large);
        ASSERT_EQ(second, small);
        ASSERT_EQ(all[1]->tag, other);
      }
    }
  }
}

TEST_P(Messages, AMaskLeavesBitsOpen) {
  make(2);
  const std::uint64_t tags[] = {0x1234, 0x1299, 0x3456, 0x12FF};
  std::vector<std::vector<char>> out;
  for (const std::uint64_t tag : tags) {
    out.push_back(pattern(tag == 0x1299 ? 50'000 : 100, tag));
    ranks[0]->send(1, tag, out.back().data(), out.back().size());
  }
  calm();
  std::vector<std::vector<char>> in(std::size(tags));
  std::vector<TransferPtr> all;
  // The first with 0x12 at the front, the next, any at all, and one that comes later.
  const std::pair<std::uint64_t, std::uint64_t> wanted[] = {
      {0x1200, 0xFF00}, {0x1200, 0xFF00}, {0, 0}, {0x12FF, kAll}};
  const int which[] = {0, 1, 2, 3};
  for (std::size_t i = 0; i < std::size(wanted); ++i) {
    in[i].resize(out[static_cast<std::size_t>(which[i])].size());
    all.push_back(ranks[1]->recv(0, wanted[i].first, wanted[i].second, in[i].data(), in[i].size()));
  }
  ASSERT_TRUE(eventually([&] { return all_ended(all); }));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]->status, Status::done) << i;
    EXPECT_EQ(all[i]->tag, tags[which[i]]);
    EXPECT_EQ(in[i], out[static_cast<std::size_t>(which[i])]);
  }
}

TEST_P(Messages, AWrongLengthEndsBothSides) {
  make(2);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, kSmall, std::size_t{100'000}}) {
    for (const bool receive_first : {true, false}) {
      for (const int more : {1, -1, 200'000}) {
        if (bytes == 0 && more < 0) continue;
        SCOPED_TRACE(bytes);
        const std::vector<char> data(bytes, 'd');
        std::vector<char> room(bytes + static_cast<std::size_t>(more), '#');
        TransferPtr in;
        if (receive_first) in = ranks[1]->recv(0, 4, kAll, room.data(), room.size());
        const auto out = ranks[0]->send(1, 4, data.data(), data.size());
        if (!receive_first) {
          calm();
          in = ranks[1]->recv(0, 4, kAll, room.data(), room.size());
        }
        ASSERT_TRUE(eventually([&] { return in->ended() && out->ended(); }));
        EXPECT_EQ(in->status, Status::wrong_length);
        EXPECT_EQ(in->bytes, bytes);
        EXPECT_EQ(out->status, Status::done);
        EXPECT_EQ(room, std::vector<char>(room.size(), '#'));
      }
    }
  }
}

TEST_P(Messages, ACancelledReceiveTakesNothing) {
  make(2);
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{100'000}}) {
    const std::vector<char> out = pattern(bytes, 3);
    std::vector<char> never(bytes, '#');
    std::vector<char> room(bytes);
    bool told = false;
    const auto cancelled = ranks[1]->recv(0, 6, kAll, never.data(), bytes);
    cancelled->on_end = [&] { told = true; };
    const auto in = ranks[1]->recv(0, 6, kAll, room.data(), bytes);
    calm();
    ranks[1]->cancel(cancelled);
    EXPECT_EQ(cancelled->status, Status::cancelled);
    EXPECT_TRUE(told);
    const auto sent = ranks[0]->send(1, 6, out.data(), bytes);
    ASSERT_TRUE(eventually([&] { return in->ended() && sent->ended(); }));
    EXPECT_EQ(room, out);
    EXPECT_EQ(never, std::vector<char>(bytes, '#'));
    ranks[1]->cancel(in);  // too late
    EXPECT_EQ(in->status, Status::done);
  }
}

TEST_P(Messages, WhatNobodyAskedForCanBeTaken) {
  make(3);
  const std::string words[] = {"one", "", "three"};
  for (std::uint64_t i = 0; i < 3; ++i) ranks[0]->send(1, 0x70 + i, words[i].data(), words[i].size());
  const std::vector<char> large(100'000);
  ranks[0]->send(1, 0x73, large.data(), large.size());
  ranks[2]->send_urgent(1, 0x80, "urgent");
  calm();
  ASSERT_TRUE(eventually([&] { return ranks[1]->connected(0) && ranks[1]->connected(2); }));
  calm();
  EXPECT_FALSE(ranks[1]->take(0x60, 0xF0));
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto message = ranks[1]->take(0x70, 0xF0);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->tag, 0x70 + i);
    EXPECT_EQ(message->data, words[i]);
  }
  EXPECT_FALSE(ranks[1]->take(0x70, 0xF0));  // only small ones
  const auto urgent = ranks[1]->take(0x80, kAll);
  ASSERT_TRUE(urgent);
  EXPECT_EQ(urgent->data, "urgent");
  std::vector<char> room(large.size());
  const auto in = ranks[1]->recv(0, 0x73, kAll, room.data(), room.size());
  EXPECT_TRUE(eventually([&] { return in->status == Status::done; }));
}

// A last word must not come before what was sent before it.
TEST_P(Messages, NoticesKeepTheirPlace) {
  make(2);
  std::vector<char> rest(1000);
  for (int i = 0; i < 500; ++i) ranks[0]->send(1, 1, rest.data(), rest.size());
  ranks[0]->send_notice(1, 2, "goodbye", false);
  std::vector<std::uint64_t> order;
  ASSERT_TRUE(eventually([&] {
    while (const auto message = ranks[1]->take(0, 0)) order.push_back(message->tag);
    return order.size() == 501;
  }));
  EXPECT_EQ(std::find(order.begin(), order.end(), 2U) - order.begin(), 500);
}

// Also where there are more than the receiver keeps: whoever takes the notice for the end of all gives up on
// what has not come by then.
TEST_P(Messages, NoticesDoNotPassWhatIsHeldBack) {
  make(2);
  constexpr std::size_t kMany = 20'000;
  const std::vector<char> rest = pattern(1000, 1);
  for (std::size_t i = 0; i < kMany; ++i) ranks[0]->send(1, 1, rest.data(), rest.size());
  ranks[0]->send_notice(1, 2, "good", false);
  ranks[0]->send_notice(1, 2, "bye", false);
  std::vector<char> room(rest.size());
  std::vector<TransferPtr> all;
  const auto receive = [&](std::size_t count) {
    for (; count > 0 && all.size() < kMany; --count)
      all.push_back(ranks[1]->recv(0, 1, kAll, room.data(), room.size()));
  };
  std::string heard;
  ASSERT_TRUE(eventually([&] {
    if (const auto message = ranks[1]->take(2, kAll)) heard += message->data;
    receive(100);
    return heard == "goodbye";
  }));
  receive(kMany);
  for (const auto& each : all) ranks[1]->cancel(each);
  ASSERT_TRUE(eventually([&] { return all_ended(all); }));
  for (std::size_t i = 0; i < kMany; ++i) ASSERT_EQ(all[i]->status, Status::done) << i;
  ASSERT_TRUE(eventually([&] { return ranks[0]->sends_pending() == 0; }));
}

// They pass what waits to be sent, and keep their order among each other.
TEST_P(Messages, UrgentOnesGoFirst) {
  make(2);
  std::vector<char> rest(1000);
  std::vector<TransferPtr> sends;
  for (int i = 0; i < 500; ++i) sends.push_back(ranks[0]->send(1, 1, rest.data(), rest.size()));
  for (int i = 0; i < 10; ++i) ranks[0]->send_urgent(1, 2, std::to_string(i));
  std::vector<std::uint64_t> order;
  std::string urgent;
  ASSERT_TRUE(eventually([&] {
    while (const auto message = ranks[1]->take(0, 0)) {
      order.push_back(message->tag);
      if (message->tag == 2) urgent += message->data;
    }
    return order.size() == 510;
  }));
  EXPECT_EQ(urgent, "0123456789");
  const auto last = std::find(order.rbegin(), order.rend(), 2U);
  EXPECT_LE(order.rend() - last, 10) << "the last urgent one came after ordinary ones";
  EXPECT_EQ(ranks[0]->sends_pending(), 0U);
}

TEST_P(Messages, TenThousandTagsWait) {
  make(2);
  constexpr std::uint64_t kTags = 10'000;
  std::vector<std::uint64_t> out(kTags);
  std::vector<std::uint64_t> in(kTags);
  std::vector<TransferPtr> all;
  for (std::uint64_t i = 0; i < kTags; ++i) {
    out[i] = i * i;
    const auto receive = [&](std::uint64_t tag) {
      all.push_back(ranks[1]->recv(0, tag, kAll, &in[tag], sizeof in[tag]));
    };
    if (i % 2 == 0) receive(i);
    all.push_back(ranks[0]->send(1, i, &out[i], sizeof out[i]));
  }
  calm();
  for (std::uint64_t i = kTags - 1; i < kTags; i -= 2)
    all.push_back(ranks[1]->recv(0, i, kAll, &in[i], sizeof in[i]));
  ASSERT_TRUE(eventually([&] { return all_ended(all); }));
  EXPECT_EQ(in, out);
}

// The sender goes on; what the receiver keeps is bounded, which shows in the sends that have ended; and all
// of it comes when it is asked for.
TEST_P(Messages, ForNobodyNeedBoundedMemory) {
  make(2);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1000}, kSmall}) {
    const std::size_t most = kCredit / (bytes + kRecord);
    const std::vector<char> block = pattern(bytes, 1);
    std::vector<TransferPtr> sends;
    for (std::size_t i = 0; i < 2 * most; ++i) {
      sends.push_back(ranks[0]->send(1, 5, block.data(), bytes));
      if (i % 1000 == 0) progress();
    }
    calm();
    const auto ended =
        std::count_if(sends.begin(), sends.end(), [](const auto& each) { return each->ended(); });
    EXPECT_GT(static_cast<std::size_t>(ended), most / 2);
    EXPECT_LE(static_cast<std::size_t>(ended), most);
    // Others are not held up.
    const auto other = ranks[0]->send(1, 6, block.data(), bytes);
    std::vector<char> room(bytes);
    const auto in = ranks[1]->recv(0, 6, kAll, room.data(), bytes);
    ASSERT_TRUE(eventually([&] { return in->ended() && other->ended(); }));
    for (std::size_t i = 0; i < sends.size(); ++i) {
      std::fill(room.begin(), room.end(), '#');
      const auto each = ranks[1]->recv(0, 5, kAll, room.data(), bytes);
      ASSERT_TRUE(eventually([&] { return each->ended(); }));
      ASSERT_EQ(room, block);
    }
    ASSERT_TRUE(eventually([&] { return ranks[0]->sends_pending() == 0; }));
    // The credit has come back.
    const auto again = ranks[0]->send(1, 7, block.data(), bytes);
    ASSERT_TRUE(eventually([&] { return again->ended(); }));
    ASSERT_TRUE(eventually([&] { return ranks[1]->take(7, kAll).has_value(); }));
  }
}

// Data of a large message stays where it is until it is wanted.
TEST_P(Messages, ALargeOneWaitsForItsReceive) {
  make(2);
  const std::vector<char> large = pattern(50'000'000, 8);
  const auto out = ranks[0]->send(1, 1, large.data(), large.size());
  int small = 9;
  ranks[0]->send(1, 2, &small, sizeof small);
  int got = 0;
  const auto in = ranks[1]->recv(0, 2, kAll, &got, sizeof got);
  ASSERT_TRUE(eventually([&] { return in->ended(); }));
  calm();
  EXPECT_FALSE(out->ended());
  EXPECT_EQ(ranks[0]->sends_pending(), 1U);
  std::vector<char> received(large.size());
  const auto late = ranks[1]->recv(0, 1, kAll, received.data(), received.size());
  ASSERT_TRUE(eventually([&] { return late->ended() && out->ended(); }));
  EXPECT_EQ(received, large);
}

INSTANTIATE_TEST_SUITE_P(Over, Messages, testing::ValuesIn(carriers()), kind_name);

}  // namespace
}  // namespace passing::net
