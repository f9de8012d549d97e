// docs/mesh.md: what is special about TCP. What every carrier promises: tests/carrier.
#include <netinet/tcp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <random>

#include "unit/meshes.h"

namespace passing::net {
namespace {

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

// Of this process.
std::vector<int> open_connections() {
  std::vector<int> found;
  for (int each = 0; each < 1024; ++each) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(each, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_ESTABLISHED)
      found.push_back(each);
  }
  return found;
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
  for (const int each : open_connections()) {
    ++connections;
    int milliseconds = 0;
    socklen_t length = sizeof milliseconds;
    ASSERT_EQ(getsockopt(each, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &length), 0);
    EXPECT_EQ(milliseconds, 8000);
  }
  EXPECT_GE(connections, 4);
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

// The most that the system keeps of one connection, on both sides.
std::size_t socket_buffers() {
  std::size_t sum = 0;
  for (const char* path : {"/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_rmem"}) {
    std::size_t least = 0;
    std::size_t usual = 0;
    std::size_t most = 0;
    std::ifstream(path) >> least >> usual >> most;
    sum += most;
  }
  return sum;
}

// Between two slices of the large one, whether that was expected or announced. What the system has of it
// already comes before.
TEST_F(Meshes, ASmallMessagePassesALargeOne) {
  make(2);
  constexpr std::size_t kBytes = 64 << 20;
  constexpr std::size_t kTwoSlices = 512 << 10;
  const std::vector<char> large(kBytes, 'l');
  for (const bool sure : {true, false}) {
    std::vector<char> room(kBytes);
    const auto in = meshes[1]->recv(0, 1, kAll, room.data(), kBytes, sure);
    const auto out = meshes[0]->send(1, 1, large.data(), kBytes);
    ASSERT_TRUE(eventually([&] { return in->received > 0; }));
    const std::size_t before = in->received;
    ASSERT_LT(before, kBytes / 2);
    int value = 7;
    int got = 0;
    const auto small_in = meshes[1]->recv(0, 2, kAll, &got, sizeof got);
    const auto small_out = meshes[0]->send(1, 2, &value, sizeof value);
    ASSERT_TRUE(eventually([&] { return small_in->ended(); }));
    EXPECT_LE(in->received - before, kTwoSlices + socket_buffers());
    std::printf("%zu bytes of the large message came before the small one\n", in->received - before);
    EXPECT_FALSE(in->ended());
    ASSERT_TRUE(eventually([&] { return in->ended() && out->ended() && small_out->ended(); }));
    EXPECT_EQ(in->status, Status::done);
    EXPECT_EQ(got, 7);
    EXPECT_TRUE(room == large);
  }
}

// Small ones that never end do not hold up a large one for ever: as much of it goes as of them.
class Crowded : public Meshes, public testing::WithParamInterface<bool> {
 protected:
  void use_small_buffers() {
    meshes[0]->send_urgent(1, 9, "");
    ASSERT_TRUE(eventually([&] { return meshes[1]->take(9, kAll).has_value(); }));
    const int bytes = 64 << 10;
    for (const int each : open_connections()) setsockopt(each, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
};

TEST_P(Crowded, SmallMessagesLeaveRoomForALargeOne) {
  make(2);
  if (GetParam()) use_small_buffers();
  constexpr std::size_t kBytes = 8 << 20;
  constexpr std::size_t kPiece = 16 << 10;
  const std::vector<char> large(kBytes, 'l');
  const std::vector<char> piece(kPiece, 's');
  std::vector<char> room(kBytes);
  std::vector<char> place(kPiece);
  const auto in = meshes[1]->recv(0, 1, kAll, room.data(), kBytes, true);
  const auto out = meshes[0]->send(1, 1, large.data(), kBytes);
  // So many that the connection is always full of them.
  std::deque<TransferPtr> small;
  const auto ended = [](const TransferPtr& each) { return each->ended(); };
  std::size_t sent = 0;
  ASSERT_TRUE(eventually([&] {
    std::erase_if(small, ended);
    for (; small.size() < 400 && sent < 64 * kBytes; sent += kPiece) {
      small.push_back(meshes[0]->send(1, 2, piece.data(), kPiece));
      small.push_back(meshes[1]->recv(0, 2, kAll, place.data(), kPiece));
    }
    return in->ended() && out->ended();
  }));
  EXPECT_EQ(in->status, Status::done);
  EXPECT_TRUE(room == large);
  EXPECT_LT(sent, 4 * kBytes) << "the large one has waited for the small ones";
  ASSERT_TRUE(eventually([&] { return std::all_of(small.begin(), small.end(), ended); }));
}

// With small buffers of the system every write ends within a small message.
INSTANTIATE_TEST_SUITE_P(With, Crowded, testing::Bool(),
                         [](const auto& each) { return each.param ? "SmallBuffers" : "UsualBuffers"; });

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
