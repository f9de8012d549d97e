// docs/mesh.md: who connects, who is refused, and what is left of those who go.
#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "carrier/carriers.h"

namespace passing::net {
namespace {

class Faults : public Carriers {};

TEST_P(Faults, RanksConnectOnFirstUseAndSleepWhenIdle) {
  make(3);
  EXPECT_FALSE(ranks[0]->connected(1));
  for (const auto& [from, to] : {std::pair(0U, 1U), std::pair(1U, 0U)}) {
    int value = 5;
    int got = 0;
    const auto in = ranks[to]->recv(from, 3, kAll, &got, sizeof got);
    const auto out = ranks[from]->send(to, 3, &value, sizeof value);
    ASSERT_TRUE(eventually([&] { return in->ended() && out->ended(); }));
    EXPECT_EQ(got, 5);
    EXPECT_TRUE(ranks[0]->connected(1));
    EXPECT_TRUE(ranks[1]->connected(0));
  }
  EXPECT_FALSE(ranks[0]->connected(2));
  calm();
  EXPECT_TRUE(idle(50));
  EXPECT_FALSE(ranks[0]->glance(1));
}

TEST_P(Faults, APeerThatGoesIsLost) {
  make(4);
  std::vector<char> data(1'000'000);
  std::vector<char> room(data.size());
  const auto unread = ranks[0]->send(1, 1, data.data(), data.size());
  const auto never_sent = ranks[1]->send(0, 9, data.data(), data.size());
  int got = 0;
  int value = 1;
  const auto in = ranks[2]->recv(1, 2, kAll, &got, sizeof got);
  ranks[1]->send(2, 2, &value, sizeof value);
  ASSERT_TRUE(eventually([&] { return in->ended() && ranks[0]->connected(1) && ranks[1]->connected(0); }));
  calm();
  ranks[1]->send(0, 3, &value, sizeof value);
  ranks[1]->send_urgent(0, 4, "farewell");
  ranks[1]->flush();
  ranks[1].reset();
  ASSERT_TRUE(eventually([&] { return ranks[0]->has_lost() && ranks[2]->has_lost(); }));
  for (const int r : {0, 2}) {
    const auto lost = ranks[static_cast<std::size_t>(r)]->take_lost();
    ASSERT_EQ(lost.size(), 1U);
    EXPECT_EQ(lost[0].rank, 1U);
    EXPECT_FALSE(lost[0].reason.empty());
  }
  EXPECT_FALSE(ranks[0]->has_lost());
  EXPECT_FALSE(ranks[3]->has_lost());
  EXPECT_EQ(unread->status, Status::failed);
  EXPECT_EQ(never_sent->status, Status::pending);
  // Its last words are there; its large message is not.
  EXPECT_TRUE(ranks[0]->take(3, kAll));
  EXPECT_TRUE(ranks[0]->take(4, kAll));
  const auto nothing = ranks[0]->recv(1, 9, kAll, room.data(), room.size());
  calm();
  EXPECT_NE(nothing->status, Status::done);
  EXPECT_EQ(ranks[0]->send(1, 1, data.data(), 1)->status, Status::failed);
  ranks[0]->send_urgent(1, 1, "nobody hears this");
  EXPECT_EQ(ranks[0]->sends_pending(), 0U);
}

// The loss of one rank makes another go: what that has said before still comes before its loss.
TEST_P(Faults, LastWordsComeBeforeTheLoss) {
  make(3);
  int value = 1;
  ranks[2]->send(0, 4, &value, sizeof value);
  ASSERT_TRUE(eventually([&] { return ranks[0]->take(4, kAll).has_value(); }));
  const std::vector<char> large(1'000'000);
  ranks[0]->send(1, 1, large.data(), large.size())->on_end = [&] {
    ranks[2]->send(0, 5, &value, sizeof value);
    ranks[2]->flush();
    ranks[2].reset();
  };
  ASSERT_TRUE(eventually([&] { return ranks[1]->connected(0); }));
  calm();
  ranks[1].reset();
  std::vector<std::uint32_t> lost;
  ASSERT_TRUE(eventually([&] {
    for (const LostPeer& each : ranks[0]->take_lost()) {
      lost.push_back(each.rank);
      if (each.rank != 2) continue;
      EXPECT_TRUE(ranks[0]->take(5, kAll));
    }
    return lost.size() == 2;
  }));
  EXPECT_EQ(lost, (std::vector<std::uint32_t>{1, 2}));
}

// Of both ranks, since a carrier may have the one connect and the other call.
TEST_P(Faults, SomeoneWhoHasGoneBeforeIsLost) {
  for (const std::uint32_t gone : {0U, 1U}) {
    ranks.clear();
    addresses.clear();
    make(2);
    ranks[gone].reset();
    std::vector<char> data(100'000);
    auto& rank = *ranks[1 - gone];
    const std::vector<TransferPtr> sends = {rank.send(gone, 1, data.data(), 1),
                                            rank.send(gone, 1, data.data(), data.size())};
    ASSERT_TRUE(eventually([&] { return rank.has_lost(); }));
    // A small one may have been on its way.
    EXPECT_EQ(sends[1]->status, Status::failed);
    EXPECT_TRUE(all_ended(sends));
    const auto lost = rank.take_lost();
    ASSERT_EQ(lost.size(), 1U);
    EXPECT_EQ(lost[0].rank, gone);
    EXPECT_EQ(rank.sends_pending(), 0U);
  }
}

// A receive that is sure of its message makes the connection: the loss is found without a word.
TEST_P(Faults, WhoeverIsExpectedToSendIsLost) {
  make(2);
  std::vector<char> room(100'000);
  ranks[0]->recv(1, 1, kAll, room.data(), room.size(), true);
  ASSERT_TRUE(eventually([&] { return ranks[1]->connected(0); }));
  ranks[1].reset();
  EXPECT_TRUE(eventually([&] { return ranks[0]->has_lost(); }));
}

TEST_P(Faults, AnotherGroupOrKeyIsRefused) {
  for (const bool other_key : {false, true}) {
    ranks.clear();
    addresses.clear();
    create(3);
    const Key key = key_of("a token of the tests");
    for (const std::size_t r : {0, 1}) ASSERT_TRUE(ranks[r]->introduce(addresses, 7, key));
    const Key wrong = other_key ? key_of("another token") : key;
    ASSERT_TRUE(ranks[2]->introduce(addresses, other_key ? 7 : 8, wrong));
    int value = 1;
    int got = 0;
    const auto in = ranks[0]->recv(2, 1, kAll, &got, sizeof got);
    ranks[2]->send(0, 1, &value, sizeof value);
    ASSERT_TRUE(eventually([&] { return ranks[2]->has_lost(); }));
    EXPECT_EQ(ranks[2]->take_lost()[0].rank, 0U);
    EXPECT_EQ(ranks[2]->send(0, 1, &value, sizeof value)->status, Status::failed);
    calm();
    EXPECT_FALSE(in->ended());
    EXPECT_FALSE(ranks[0]->has_lost());
    EXPECT_FALSE(ranks[0]->take(0, 0));
    // The others do not notice.
    const auto good = ranks[0]->recv(1, 5, kAll, &got, sizeof got);
    ranks[1]->send(0, 5, &value, sizeof value);
    EXPECT_TRUE(eventually([&] { return good->status == Status::done; }));
  }
}

TEST_P(Faults, AnAddressThatMeansNothingIsAnError) {
  create(2);
  for (const char* wrong : {"", "nonsense", "memory:", "memory:1x", "carrier-pigeon:7"}) {
    addresses[1] = wrong;
    const auto known = ranks[0]->introduce(addresses, 7, {});
    ASSERT_FALSE(known) << wrong;
    EXPECT_FALSE(known.error().message.empty());
  }
}

// What it has said counts, and it is lost after that.
TEST_P(Faults, ARankThatGoesBeforeOthersAreIntroduced) {
  create(2);
  const Key key = key_of("a token of the tests");
  ASSERT_TRUE(ranks[0]->introduce(addresses, 7, key));
  int value = 7;
  ranks[0]->send(1, 1, &value, sizeof value);
  ranks[0]->send_notice(1, 2, "goodbye", false);
  ranks[0]->flush();
  if (std::string(GetParam()) == "memory") ranks[0].reset();  // a socket needs the other side
  ASSERT_TRUE(ranks[1]->introduce(addresses, 7, key));
  int got = 0;
  const auto in = ranks[1]->recv(0, 1, kAll, &got, sizeof got);
  ASSERT_TRUE(eventually([&] { return in->ended(); }));
  EXPECT_EQ(in->status, Status::done);
  EXPECT_EQ(got, 7);
  ASSERT_TRUE(eventually([&] { return ranks[1]->take(2, kAll).has_value(); }));
  ranks[0].reset();
  ASSERT_TRUE(eventually([&] { return ranks[1]->has_lost(); }));
  EXPECT_EQ(ranks[1]->take_lost()[0].rank, 0U);
}

// With transfers under way, both ways and of both kinds: afterwards the buffers are this rank's own again.
TEST_P(Faults, ADetachedRankTouchesNothing) {
  for (const std::uint32_t leaves : {0U, 1U}) {
    ranks.clear();
    addresses.clear();
    make(2);
    constexpr std::size_t kBytes = 4 << 20;
    std::vector<std::vector<char>> room(4, std::vector<char>(kBytes));
    std::vector<TransferPtr> all;
    {
      std::vector<std::vector<char>> out(4, std::vector<char>(kBytes, 'o'));
      for (std::uint64_t tag = 0; tag < 4; ++tag) {
        const auto from = static_cast<std::uint32_t>(tag % 2);
        all.push_back(ranks[1 - from]->recv(from, tag, kAll, room[tag].data(), kBytes, tag < 2));
        all.push_back(ranks[from]->send(1 - from, tag, out[tag].data(), kBytes));
      }
      for (int i = 0; i < 2; ++i) ranks[static_cast<std::size_t>(i)]->progress();
      ranks[leaves]->detach();
      for (const auto& each : out) EXPECT_EQ(each.size(), kBytes);
      // What the other one sends must stay until it has heard of it.
      ASSERT_TRUE(eventually([&] { return ranks[1 - leaves]->has_lost(); }));
    }
    for (std::uint64_t tag = 0; tag < 4; ++tag) room[tag].assign(kBytes, '#');
    calm();
    for (const auto& each : room) EXPECT_TRUE(each == std::vector<char>(kBytes, '#'));
    ranks[leaves].reset();
  }
}

// A receiver reads from a rank that goes in the middle of it, with its buffer.
TEST_P(Faults, ASenderMayGoWhileSomeoneReceives) {
  std::mt19937 random(5);
  for (int round = 0; round < 10; ++round) {
    ranks.clear();
    addresses.clear();
    make(2);
    std::atomic<bool> begun = false;
    std::thread receiver([&] {
      std::vector<std::vector<char>> room(8, std::vector<char>(8 << 20));
      std::vector<TransferPtr> in;
      for (auto& each : room) in.push_back(ranks[1]->recv(0, 1, kAll, each.data(), each.size(), true));
      while (!ranks[1]->has_lost()) {
        ranks[1]->progress();
        if (ranks[1]->connected(0)) begun = true;
      }
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i]->status != Status::done) continue;
        EXPECT_EQ(room[i], std::vector<char>(room[i].size(), 's'));
      }
      ranks[1]->detach();
    });
    {
      std::vector<char> data(8 << 20, 's');
      for (int i = 0; i < 8; ++i) ranks[0]->send(1, 1, data.data(), data.size());
      while (!begun) ranks[0]->progress();
      for (auto turns = random() % 50; turns > 0; --turns) ranks[0]->progress();
      ranks[0].reset();
      std::fill(data.begin(), data.end(), '#');
    }
    receiver.join();
  }
}

// Whoever is told that a transfer has ended may send and receive at once.
TEST_P(Faults, TheEndOfOneTransferBeginsOthers) {
  make(2);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{200'000}}) {
    constexpr int kMessages = 50;
    constexpr int kChains = 8;
    const std::vector<char> out = pattern(bytes, 1);
    std::vector<char> room[kChains][2];
    int came = 0;
    // A chain of messages to and fro. One that has gone leads to a receive, one that has come to a send.
    std::function<void(int, int)> receive;
    const std::function<void(int, int)> send = [&](int chain, int number) {
      if (number == kMessages) return;
      const auto rank = static_cast<std::uint32_t>(number % 2);
      const auto sent = ranks[rank]->send(1 - rank, static_cast<std::uint64_t>(chain), out.data(), bytes);
      const auto next = [&, chain, number] { receive(chain, number + 1); };
      if (sent->ended()) return next();
      sent->on_end = next;
    };
    receive = [&](int chain, int number) {
      if (number == kMessages) return;
      const auto rank = static_cast<std::uint32_t>((number + 1) % 2);
      std::vector<char>& into = room[chain][rank];
      into.assign(bytes, '#');
      const auto in = ranks[rank]->recv(1 - rank, static_cast<std::uint64_t>(chain), kAll, into.data(), bytes,
                                        chain % 2 == 0);
      const auto next = [&, chain, number] {
        EXPECT_EQ(into, out);
        ++came;
        send(chain, number + 1);
      };
      if (in->ended()) return next();
      in->on_end = next;
    };
    for (int chain = 0; chain < kChains; ++chain) {
      receive(chain, 0);
      send(chain, 0);
    }
    ASSERT_TRUE(eventually([&] { return came == kChains * kMessages; }));
    calm();
  }
  EXPECT_EQ(ranks[0]->sends_pending() + ranks[1]->sends_pending(), 0U);
  EXPECT_FALSE(ranks[0]->has_lost() || ranks[1]->has_lost());
}

// Many end with one call of the system, and each of them wants something urgent to go out.
TEST_P(Faults, ManyEndsBeginUrgentThings) {
  make(2);
  std::vector<char> data(100);
  std::vector<std::vector<char>> room(200, std::vector<char>(100'000));
  std::vector<TransferPtr> all;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto sent = ranks[0]->send(1, 1, data.data(), data.size());
    const auto next = [&, i] {
      all.push_back(ranks[0]->recv(1, 1000 + i, kAll, room[i].data(), room[i].size(), true));
      ranks[0]->send_urgent(1, 2, "urgent");
    };
    if (sent->ended()) {
      next();
    } else {
      sent->on_end = next;
    }
  }
  const std::vector<char> large = pattern(100'000, 4);
  for (std::uint64_t i = 0; i < 200; ++i) ranks[1]->send(0, 1000 + i, large.data(), large.size());
  ASSERT_TRUE(eventually([&] { return all.size() == 200 && all_ended(all); }));
  for (const auto& each : room) EXPECT_EQ(each, large);
  std::size_t urgent = 0;
  std::size_t others = 0;
  ASSERT_TRUE(eventually([&] {
    while (ranks[1]->take(2, kAll)) ++urgent;
    while (ranks[1]->take(1, kAll)) ++others;
    return urgent == 200 && others == 200;
  }));
  EXPECT_FALSE(ranks[0]->has_lost() || ranks[1]->has_lost());
}

// What is ended by a loss leads to more, too.
TEST_P(Faults, TheEndOfALostTransferMaySendAgain) {
  make(3);
  std::vector<char> data(100'000);
  int failed = 0;
  for (int i = 0; i < 10; ++i) {
    ranks[0]->send(1, 1, data.data(), data.size())->on_end = [&] {
      if (ranks[0]->send(1, 1, data.data(), data.size())->status == Status::failed) ++failed;
      ranks[0]->send(2, 2, data.data(), 10);
    };
  }
  ASSERT_TRUE(eventually([&] { return ranks[1]->connected(0); }));
  calm();
  ranks[1].reset();
  ASSERT_TRUE(eventually([&] { return failed == 10; }));
  int came = 0;
  EXPECT_TRUE(eventually([&] {
    while (ranks[2]->take(2, kAll)) ++came;
    return came == 10;
  }));
}

INSTANTIATE_TEST_SUITE_P(Over, Faults, testing::ValuesIn(carriers()), kind_name);

}  // namespace
}  // namespace passing::net
