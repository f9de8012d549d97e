// docs/mesh.md: what a mesh does where the system refuses to tell it what happens on a connection.
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>

#include "unit/meshes.h"

namespace {

std::atomic<int> refusals = 0;  // of the next additions

}  // namespace

// Stands before the system's.
extern "C" int epoll_ctl(int events, int what, int descriptor, epoll_event* event) noexcept {
  if (what == EPOLL_CTL_ADD && refusals > 0) {
    --refusals;
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_epoll_ctl, events, what, descriptor, event));
}

namespace passing::net {
namespace {

class Shortage : public Meshes {
 protected:
  ~Shortage() override { refusals = 0; }
};

TEST_F(Shortage, OfAConnectionToAPeerIsAFault) {
  make(2);
  refusals = 1;
  const auto out = meshes[0]->send(1, 1, nullptr, 0);
  ASSERT_TRUE(meshes[0]->fault());
  EXPECT_NE(meshes[0]->fault()->message.find("cannot wait for a connection"), std::string::npos);
  EXPECT_EQ(out->status, Status::failed);
}

// It ends nothing: whoever came is closed, and comes again.
TEST_F(Shortage, OfOneThatComesPasses) {
  make(2);
  int value = 3;
  int got = 0;
  const auto in = meshes[1]->recv(0, 1, kAll, &got, sizeof got);
  meshes[0]->send(1, 1, &value, sizeof value);
  meshes[0]->progress();
  // The connection, and then twice the door.
  refusals = 3;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
  while (std::chrono::steady_clock::now() < until) {
    meshes[1]->progress();
    pollfd source{meshes[1]->descriptor(), POLLIN, 0};
    ::poll(&source, 1, 50);
  }
  EXPECT_EQ(refusals, 0);
  ASSERT_TRUE(eventually([&] { return in->ended(); }));
  EXPECT_EQ(in->status, Status::done);
  EXPECT_EQ(got, 3);
  EXPECT_EQ(meshes[1]->refused().waiting, 1U);
  EXPECT_FALSE(meshes[0]->fault() || meshes[1]->fault() || meshes[0]->has_lost());
}

}  // namespace
}  // namespace passing::net
