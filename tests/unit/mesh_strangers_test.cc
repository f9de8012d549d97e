// docs/mesh.md: what strangers can do to a mesh, and what they cannot.
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "unit/meshes.h"

namespace passing::net {
namespace {

constexpr std::uint64_t kMost = 64 + 2;  // strangers, in a group of two

class Strangers : public Meshes {
 protected:
  ~Strangers() override {
    for (const int each : sockets) ::close(each);
  }
  // One more message each way, over the connection that they have.
  void exchange() {
    int out[2] = {++round, -round};
    int in[2] = {};
    const TransferPtr all[] = {
        meshes[1]->recv(0, 3, kAll, &in[1], sizeof(int)), meshes[0]->recv(1, 3, kAll, &in[0], sizeof(int)),
        meshes[0]->send(1, 3, &out[0], sizeof(int)), meshes[1]->send(0, 3, &out[1], sizeof(int))};
    ASSERT_TRUE(eventually([&] {
      return std::all_of(std::begin(all), std::end(all), [](const auto& each) { return each->ended(); });
    }));
    for (const auto& each : all) ASSERT_EQ(each->status, Status::done);
    ASSERT_EQ(in[1], round);
    ASSERT_EQ(in[0], -round);
  }
  int come(const std::string& words = "", std::uint32_t to = 1) {
    const int descriptor = stranger(to);
    sockets.push_back(descriptor);
    // Closed without a trace, so that thousands do not use up the ports.
    const linger at_once{1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    EXPECT_EQ(::send(descriptor, words.data(), words.size(), MSG_NOSIGNAL), std::ssize(words));
    return descriptor;
  }
  void all_go() {
    for (const int each : sockets) ::close(each);
    sockets.clear();
  }
  // Not more than one can say without having listened.
  static std::string blind(std::uint32_t rank, std::uint64_t group) {
    return hello({.acceptor = 1,
                  .dialler = rank,
                  .group = group,
                  .purpose = static_cast<std::uint32_t>(FrameType::hello)});
  }
  // Whether nothing wakes the owner for so long.
  bool sleeps(std::uint32_t rank, int milliseconds) {
    pollfd source{meshes[rank]->descriptor(), POLLIN, 0};
    return ::poll(&source, 1, milliseconds) == 0;
  }

  std::vector<int> sockets;
  int round = 0;
};

TEST_F(Strangers, AreCountedByWhatTheyDid) {
  make(2);
  exchange();
  const Refused& counts = meshes[1]->refused();
  come("GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: */*\r\n\r\n");
  come(frame(FrameType::message, 1, 0, 4) + "data");  // before hello
  come(frame(FrameType::hello, std::uint64_t{FrameHeader::kVersion} << 32, 7, 1 << 20));
  come(frame(FrameType::hello, 0, 7));  // as it was in version 1
  come(blind(0, 8));
  ::close(come());
  sockets.pop_back();
  EXPECT_TRUE(eventually([&] { return counts.left == 1 && counts.garbage == 3 && counts.other_group == 1; }));
  EXPECT_EQ(counts.other_version, 1U);
  EXPECT_EQ(counts.late + counts.too_many + counts.unproven, 0U);
  exchange();
  EXPECT_FALSE(meshes[1]->has_lost());
}

// The owner only waits for the descriptor: the mesh itself wakes it when their time is over.
TEST_F(Strangers, HaveFiveSeconds) {
  make(2);
  exchange();
  const int quiet = come();
  const int half = come(blind(0, 7).substr(0, 80));
  const auto began = std::chrono::steady_clock::now();
  while (meshes[1]->refused().late < 2) {
    pollfd source{meshes[1]->descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&source, 1, 10'000), 1);
    meshes[1]->progress();
  }
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_GT(took, std::chrono::milliseconds(4900));
  EXPECT_LT(took, std::chrono::milliseconds(8000));
  EXPECT_TRUE(refused(quiet));
  EXPECT_TRUE(refused(half));
  exchange();
  EXPECT_TRUE(sleeps(1, 50));
}

TEST_F(Strangers, TheOldestMakesRoom) {
  make(2);
  exchange();
  const int oldest = come();
  ASSERT_TRUE(eventually([&] { return true; }));
  for (std::uint64_t i = 1; i < kMost; ++i) come();
  for (int i = 0; i < 10; ++i) exchange();
  EXPECT_EQ(meshes[1]->refused().too_many, 0U);
  come();
  EXPECT_TRUE(eventually([&] { return meshes[1]->refused().too_many == 1; }));
  EXPECT_TRUE(refused(oldest));
  exchange();
  EXPECT_EQ(meshes[1]->refused().too_many, 1U);
}

TEST_F(Strangers, TenThousand) {
  make(2);
  exchange();
  const Refused& counts = meshes[1]->refused();
  Refused expected;
  const auto same = [&] {
    return counts.garbage == expected.garbage && counts.other_group == expected.other_group &&
           counts.left == expected.left && counts.late == 0 && counts.too_many == expected.too_many;
  };
  constexpr std::uint64_t kBurst = 100;
  for (int burst = 0; burst < 100; ++burst) {
    for (std::uint64_t i = 0; i < kBurst; ++i) {
      switch (burst % 4) {
        case 0: come(); break;
        case 1: come(std::string(40, static_cast<char>(i))); break;
        case 2: come(blind(0, 7).substr(0, 31)); break;
        case 3: come(blind(0, 100 + i)); break;
      }
      if (i % 16 == 0) exchange();
      if (HasFatalFailure()) return;
    }
    if (burst % 4 == 1) expected.garbage += kBurst;
    if (burst % 4 == 3) expected.other_group += kBurst;
    if (burst % 2 == 0) expected.too_many += kBurst - kMost;
    ASSERT_TRUE(eventually(same)) << "burst " << burst;
    all_go();
    if (burst % 2 == 0) expected.left += kMost;
    ASSERT_TRUE(eventually(same)) << "burst " << burst;
  }
  EXPECT_EQ(counts.garbage + counts.other_group + counts.too_many + counts.left, 10'000U);
  EXPECT_FALSE(meshes[0]->has_lost() || meshes[1]->has_lost());
}

// A rank that is taken for one stranger too many dials again: nobody is lost, whichever of the two connects.
TEST_F(Strangers, ACrowdDelaysAFirstConnection) {
  for (const std::uint32_t to : {0U, 1U}) {
    meshes.clear();
    make(2);
    int value = 5;
    int got = 0;
    const auto in = meshes[to]->recv(1 - to, 1, kAll, &got, sizeof got);
    const auto out = meshes[1 - to]->send(to, 1, &value, sizeof value);
    meshes[1 - to]->progress();
    for (std::uint64_t i = 0; i < 2 * kMost; ++i) come("", to);
    // It has accepted all of them before the other one comes to say who it is.
    for (int i = 0; i < 5; ++i) meshes[to]->progress();
    EXPECT_EQ(meshes[to]->refused().too_many, kMost + 1);
    ASSERT_TRUE(eventually([&] { return in->ended() || meshes[1 - to]->has_lost(); }));
    EXPECT_EQ(in->status, Status::done);
    EXPECT_EQ(got, 5);
    EXPECT_FALSE(meshes[0]->has_lost() || meshes[1]->has_lost());
    all_go();
  }
}

// In each burst of a crowd another rank comes for the first time, and first of all.
TEST_F(Strangers, TenThousandWhileRanksConnect) {
  constexpr std::uint32_t kLast = 50;
  make(kLast + 1);
  std::vector<int> got(kLast);
  int value = 7;
  for (std::uint32_t rank = 0; rank < kLast; ++rank) {
    const auto in = meshes[kLast]->recv(rank, 1, kAll, &got[rank], sizeof(int));
    meshes[rank]->send(kLast, 1, &value, sizeof value);
    meshes[rank]->progress();
    for (int i = 0; i < 200; ++i) come(i % 2 == 0 ? "" : blind(rank, 8), kLast);
    for (int i = 0; i < 4; ++i) meshes[kLast]->progress();
    ASSERT_TRUE(eventually([&] { return in->ended() || meshes[rank]->has_lost(); })) << rank;
    ASSERT_EQ(in->status, Status::done) << rank;
    all_go();
  }
  EXPECT_EQ(got, std::vector<int>(kLast, 7));
  EXPECT_GT(meshes[kLast]->refused().too_many, 0U);
  for (const auto& each : meshes) EXPECT_FALSE(each->has_lost());
}

// More of them have said who they are, while this rank was busy, than it reads in one turn.
TEST_F(Strangers, AreHeardBeforeTheyAreLate) {
  constexpr std::uint32_t kLast = 80;
  make(kLast + 1);
  std::vector<TransferPtr> all;
  for (std::uint32_t rank = 0; rank < kLast; ++rank) all.push_back(meshes[rank]->send(kLast, 1, nullptr, 0));
  for (int i = 0; i < 3; ++i) {
    for (std::uint32_t rank = 0; rank < kLast; ++rank) meshes[rank]->progress();
    if (i == 1) {
      for (int turns = 0; turns < 3; ++turns) meshes[kLast]->progress();
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5100));
  ASSERT_TRUE(eventually(
      [&] { return std::all_of(all.begin(), all.end(), [](const auto& each) { return each->ended(); }); }));
  EXPECT_EQ(meshes[kLast]->refused().late, 0U);
  for (const auto& each : all) EXPECT_EQ(each->status, Status::done);
}

// Whoever is never let in says so in the end.
TEST_F(Strangers, AreNotDialledForEver) {
  make(2);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockets.push_back(listener);
  SocketAddress there = *parse_address("127.0.0.1:0");
  ASSERT_EQ(::bind(listener, there.get(), there.length), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  getsockname(listener, there.get(), &there.length);
  meshes[0]->introduce({meshes[0]->socket_address(), there}, 7);
  const auto out = meshes[0]->send(1, 1, nullptr, 0);
  meshes[0]->flush();
  const auto began = std::chrono::steady_clock::now();
  // Only what wakes it moves it.
  while (!meshes[0]->has_lost()) {
    ASSERT_LT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(8000));
    pollfd sources[] = {{meshes[0]->descriptor(), POLLIN, 0}, {listener, POLLIN, 0}};
    ASSERT_GE(::poll(sources, 2, 10'000), 1);
    if (sources[1].revents != 0) ::close(::accept(listener, nullptr, nullptr));
    if (sources[0].revents != 0) meshes[0]->progress();
  }
  EXPECT_GT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(4900));
  EXPECT_EQ(out->status, Status::failed);
  const auto lost = meshes[0]->take_lost();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_NE(lost[0].reason.find("has not let this rank in for 5 s"), std::string::npos) << lost[0].reason;
}

#ifndef __SANITIZE_ADDRESS__  // the undefined-behaviour sanitizer needs descriptors for its own checks
// No descriptor is left: nobody new comes, but the group goes on, and sleeps meanwhile.
TEST_F(Strangers, NoDescriptorForThem) {
  make(3);
  exchange();
  come();
  come();
  ASSERT_TRUE(eventually([&] { return true; }));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const auto used = static_cast<rlim_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                                      std::filesystem::directory_iterator()));
  const int first = come();
  const int second = come();
  const rlimit tight{used + 32, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<int> hoard;
  for (int each = dup(0); each >= 0; each = dup(0)) hoard.push_back(each);
  // Those that were there make room for the new ones, which are taken for strangers in turn.
  EXPECT_TRUE(eventually([&] { return meshes[1]->refused().too_many == 2; }));
  for (const int each : {first, second}) EXPECT_EQ(::send(each, "x", 1, MSG_NOSIGNAL), 1);
  exchange();
  EXPECT_FALSE(meshes[1]->fault());
  // Rank 2 has no stranger that could make room.
  ::close(hoard.back());
  hoard.pop_back();
  const int late = stranger(2);
  for (int i = 0; i < 3; ++i) meshes[2]->progress();
  EXPECT_TRUE(sleeps(2, 50));
  EXPECT_FALSE(sleeps(2, 200));
  exchange();
  for (const int each : hoard) ::close(each);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(meshes[2]->fault());
  int value = 4;
  int got = 0;
  const auto in = meshes[2]->recv(0, 9, kAll, &got, sizeof got);
  meshes[0]->send(2, 9, &value, sizeof value);
  EXPECT_TRUE(eventually([&] { return in->status == Status::done; }));
  EXPECT_EQ(got, 4);
  ::close(late);
}
#endif

// In a process of its own, in which no mesh has been.
TEST(Descriptors, TheFirstMeshRaisesTheLimit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 256);
        setrlimit(RLIMIT_NOFILE, &limit);
        const auto mesh = Mesh::create(0, 2, *parse_address("127.0.0.1:0"));
        getrlimit(RLIMIT_NOFILE, &limit);
        std::_Exit(mesh && limit.rlim_cur == limit.rlim_max ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace passing::net
