// docs/mesh.md: what the mesh promises, and what strangers can do to it.
#include <netinet/tcp.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "unit/meshes.h"

namespace passing::net {
namespace {

TEST_F(Meshes, ConnectOnFirstUseAndSleepWhenIdle) {
  make(2);
  EXPECT_FALSE(meshes[0]->connected(1));
  int value = 5;
  int got = 0;
  const auto in = meshes[1]->recv(0, 3, kAll, &got, sizeof got);
  const auto out = meshes[0]->send(1, 3, &value, sizeof value);
  ASSERT_TRUE(eventually([&] { return in->ended() && out->ended(); }));
  EXPECT_TRUE(meshes[0]->connected(1));
  EXPECT_EQ(got, 5);
  // The same connection both ways.
  EXPECT_TRUE(meshes[1]->connected(0));
  const auto back_in = meshes[0]->recv(1, 4, kAll, &got, sizeof got);
  const auto back_out = meshes[1]->send(0, 4, &value, sizeof value);
  ASSERT_TRUE(eventually([&] { return back_in->ended() && back_out->ended(); }));
  EXPECT_EQ(back_in->status, Status::done);
  for (auto& each : meshes) {
    pollfd source{each->descriptor(), POLLIN, 0};
    EXPECT_EQ(::poll(&source, 1, 50), 0);
  }
}

TEST_F(Meshes, LargeMessagesNeedNoMemoryBeforeTheirReceive) {
  make(2);
  std::vector<char> large(50'000'000, 'x');
  const auto out = meshes[0]->send(1, 1, large.data(), large.size());
  int small = 9;
  const auto after = meshes[0]->send(1, 2, &small, sizeof small);
  int got = 0;
  const auto in = meshes[1]->recv(0, 2, kAll, &got, sizeof got);
  // What comes behind it is not held up.
  ASSERT_TRUE(eventually([&] { return in->ended(); }));
  EXPECT_FALSE(out->ended());
  std::vector<char> received(large.size());
  const auto late = meshes[1]->recv(0, 1, kAll, received.data(), received.size());
  ASSERT_TRUE(eventually([&] { return late->ended() && out->ended(); }));
  EXPECT_EQ(late->status, Status::done);
  EXPECT_EQ(received, large);
}

TEST_F(Meshes, RandomSizesAndOrders) {
  make(3);
  std::mt19937 source(11);
  const auto rank = [&] { return static_cast<std::uint32_t>(source() % 3); };
  for (int round = 0; round < 30; ++round) {
    struct Pair {
      std::vector<char> out;
      std::vector<char> in;
      std::uint32_t from, to;
      std::uint64_t tag;
    };
    std::vector<Pair> pairs(20);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::size_t bytes = source() % 3 == 0 ? source() % 300'000 : source() % 20'000;
      pairs[i] = {std::vector<char>(bytes, static_cast<char>(i)), std::vector<char>(bytes), rank(), rank(),
                  i};
    }
    std::vector<TransferPtr> all;
    std::vector<std::size_t> order(2 * pairs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), source);
    for (const std::size_t i : order) {
      Pair& pair = pairs[i / 2];
      if (pair.from == pair.to) continue;
      all.push_back(i % 2 == 0
                        ? meshes[pair.from]->send(pair.to, pair.tag, pair.out.data(), pair.out.size())
                        : meshes[pair.to]->recv(pair.from, pair.tag, kAll, pair.in.data(), pair.in.size()));
      if (source() % 4 == 0) meshes[source() % 3]->progress();
    }
    ASSERT_TRUE(eventually([&] {
      return std::all_of(all.begin(), all.end(),
                         [](const TransferPtr& each) { return each->status == Status::done; });
    }));
    for (const Pair& pair : pairs) {
      if (pair.from == pair.to) continue;
      ASSERT_EQ(pair.in, pair.out);
    }
  }
}

// Both find out at the same time that they have something for each other.
TEST_F(Meshes, ConnectFromBothSides) {
  make(6);
  int got[6][6] = {};
  int value[6];
  std::vector<TransferPtr> all;
  for (std::uint32_t a = 0; a < 6; ++a) {
    value[a] = static_cast<int>(10 + a);
    for (std::uint32_t b = 0; b < 6; ++b) {
      if (a == b) continue;
      all.push_back(meshes[a]->recv(b, b, kAll, &got[a][b], sizeof got[a][b]));
      all.push_back(meshes[a]->send(b, a, &value[a], sizeof value[a]));
      if ((a + b) % 3 == 0) meshes[b]->progress();
    }
  }
  ASSERT_TRUE(eventually([&] {
    return std::all_of(all.begin(), all.end(), [](const TransferPtr& each) { return each->ended(); });
  }));
  for (std::uint32_t a = 0; a < 6; ++a) {
    EXPECT_TRUE(meshes[a]->take_lost().empty());
    for (std::uint32_t b = 0; b < 6; ++b) EXPECT_EQ(got[a][b], a == b ? 0 : value[b]);
  }
}

// Both ends of every connection find a machine that has vanished, also while data is under way.
TEST_F(Meshes, EveryConnectionHasATimeout) {
  make(3);
  int got[2] = {};
  int value = 1;
  const auto up = meshes[1]->recv(0, 1, kAll, &got[0], sizeof(int));
  const auto down = meshes[0]->recv(2, 2, kAll, &got[1], sizeof(int));
  meshes[0]->send(1, 1, &value, sizeof value);
  meshes[2]->send(0, 2, &value, sizeof value);
  ASSERT_TRUE(eventually([&] { return up->ended() && down->ended(); }));
  int connections = 0;
  for (int each = 0; each < 1024; ++each) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(each, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state != TCP_ESTABLISHED)
      continue;
    ++connections;
    int milliseconds = 0;
    length = sizeof milliseconds;
    ASSERT_EQ(getsockopt(each, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &length), 0);
    EXPECT_EQ(milliseconds, 8000);
  }
  EXPECT_GE(connections, 4);
}

// A higher rank calls one that is not there.
TEST_F(Meshes, ACallWithoutAnswer) {
  make(2);
  meshes[0].reset();
  int value = 1;
  const auto out = meshes[1]->send(0, 1, &value, sizeof value);
  ASSERT_TRUE(eventually([&] { return out->ended(); }));
  EXPECT_EQ(out->status, Status::failed);
  const auto lost = meshes[1]->take_lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].rank, 0U);
}

// What comes at the end of a long read is not left behind: those who wait look only when they are told to.
TEST_F(Meshes, NothingStaysBehindALongRead) {
  make(2);
  std::vector<char> data(32 << 20);
  std::vector<char> room(data.size());
  for (int round = 0; round < 40; ++round) {
    const auto in = meshes[1]->recv(0, 1, kAll, room.data(), room.size(), true);
    const auto end = meshes[1]->recv(0, 2, kAll, nullptr, 0);
    const auto out = meshes[0]->send(1, 1, data.data(), data.size());
    meshes[0]->send(1, 2, nullptr, 0);
    while (!in->ended() || !end->ended()) {
      pollfd sources[] = {{meshes[0]->descriptor(), POLLIN, 0}, {meshes[1]->descriptor(), POLLIN, 0}};
      meshes[0]->flush();
      meshes[1]->flush();
      ASSERT_GT(::poll(sources, 2, 5000), 0) << "round " << round;
      for (int i = 0; i < 2; ++i) {
        if (sources[i].revents != 0) meshes[i]->progress();
      }
    }
    EXPECT_EQ(in->status, Status::done);
    EXPECT_EQ(end->status, Status::done);
  }
}

TEST_F(Meshes, WrongLengthsEndBothSides) {
  make(2);
  for (const std::size_t bytes : {100, 100'000}) {
    for (const bool first : {true, false}) {
      std::vector<char> data(bytes);
      std::vector<char> room(bytes + 1);
      TransferPtr in;
      if (first) in = meshes[1]->recv(0, 4, kAll, room.data(), room.size());
      const auto out = meshes[0]->send(1, 4, data.data(), data.size());
      for (int i = 0; i < 100; ++i) eventually([] { return true; });
      if (!first) in = meshes[1]->recv(0, 4, kAll, room.data(), room.size());
      ASSERT_TRUE(eventually([&] { return in->ended() && out->ended(); }));
      EXPECT_EQ(in->status, Status::wrong_length);
      EXPECT_EQ(in->bytes, bytes);
      EXPECT_EQ(out->status, Status::done);
    }
  }
}

TEST_F(Meshes, APeerThatGoesIsLost) {
  make(3);
  std::vector<char> data(1'000'000);
  const auto unread = meshes[0]->send(1, 1, data.data(), data.size());
  int got = 0;
  int value = 1;
  const auto in = meshes[2]->recv(1, 2, kAll, &got, sizeof got);
  const auto hello = meshes[1]->send(2, 2, &value, sizeof value);
  ASSERT_TRUE(eventually([&] { return in->ended() && hello->ended(); }));
  meshes[1].reset();
  std::vector<LostPeer> lost[3];
  // The one that sent to it, and the one that it had sent to.
  ASSERT_TRUE(eventually([&] {
    for (const int r : {0, 2}) {
      for (auto& each : meshes[r]->take_lost()) lost[r].push_back(each);
    }
    return !lost[0].empty() && !lost[2].empty();
  }));
  EXPECT_EQ(lost[0][0].rank, 1U);
  EXPECT_EQ(lost[2][0].rank, 1U);
  EXPECT_FALSE(lost[0][0].reason.empty());
  EXPECT_EQ(unread->status, Status::failed);
  EXPECT_EQ(meshes[0]->send(1, 1, data.data(), 1)->status, Status::failed);
  EXPECT_EQ(meshes[0]->sends_pending(), 0U);
}

// Members that have lost their senses. Each in the name of another: only a lower rank may say hello.
TEST_F(Meshes, WrongFramesEndAConnection) {
  constexpr std::uint32_t kLast = 15;
  make(kLast + 1);
  std::mt19937 source(3);
  std::uint32_t name = 0;
  std::string noise(500, '\0');
  for (char& each : noise) each = static_cast<char>(source());
  // After a hello that is as it must be.
  const std::string cases[] = {
      frame(FrameType::hello, 0, 7),              // twice
      frame(FrameType::challenge, 0, 7, 32),      // too late
      frame(FrameType::message, 1, 0, 1U << 30),  // too long for a small one
      frame(FrameType::want, 0, 99),              // nothing was announced
      frame(FrameType::refuse, 0, 99),
      frame(FrameType::data, 0, 99, 10),
      frame(static_cast<FrameType>(77), 0, 0),
      noise,
  };
  for (const std::string& rest : cases) {
    const int descriptor = stranger(kLast);
    const std::string each = hello(meet(descriptor, kLast, name++)) + rest;
    ASSERT_EQ(::send(descriptor, each.data(), each.size(), MSG_NOSIGNAL), static_cast<ssize_t>(each.size()));
    EXPECT_TRUE(refused(descriptor));
    ::close(descriptor);
  }
  // One that only says hello, one that announces without end, one that says nothing.
  const int quiet = stranger(kLast);
  const int busy = stranger(kLast);
  const std::string greeting = hello(meet(busy, kLast, name++));
  ::send(busy, greeting.data(), greeting.size(), MSG_NOSIGNAL);
  for (int i = 0; i < 1000; ++i) {
    const std::string announced = frame(FrameType::announce, 5, static_cast<std::uint64_t>(i), kAll);
    ::send(busy, announced.data(), announced.size(), MSG_NOSIGNAL);
  }
  int got = 0;
  int value = 3;
  const auto in = meshes[kLast]->recv(kLast - 1, 6, kAll, &got, sizeof got);
  meshes[kLast - 1]->send(kLast, 6, &value, sizeof value);
  EXPECT_TRUE(eventually([&] { return in->status == Status::done; }));
  ::close(quiet);
  ::close(busy);
}

TEST_F(Meshes, BytesComeOneByOne) {
  make(2);
  const int descriptor = stranger(1);
  std::string all = hello(meet(descriptor, 1, 0));
  for (int i = 0; i < 2; ++i) all += frame(FrameType::message, 42, 0, 5) + "bytes";
  char got[5] = {};
  const auto in = meshes[1]->recv(0, 42, kAll, got, sizeof got);
  for (const char each : all) {
    ASSERT_EQ(::send(descriptor, &each, 1, MSG_NOSIGNAL), 1);
    for (int i = 0; i < 3; ++i) meshes[1]->progress();
  }
  ASSERT_TRUE(eventually([&] { return in->status == Status::done; }));
  EXPECT_EQ(std::string(got, 5), "bytes");
  ASSERT_TRUE(eventually([&] {
    const auto second = meshes[1]->take(42, kAll);
    return second && second->data == "bytes";
  }));
  ::close(descriptor);
}

}  // namespace
}  // namespace passing::net
