// A switch on any port: the threads' ports are in a row, and others have ports, too.
#include "dataplane/userspace/userspace.h"

#include <gtest/gtest.h>

#include <vector>

namespace passing::dataplane {
namespace {

net::SocketAddress any_port() { return net::parse_address("127.0.0.1:0").value(); }

TEST(Userspace, FindsPortsInARowAmongThoseOfOthers) {
  std::vector<net::UdpSocket> others;
  for (int i = 0; i < 800; ++i) {
    auto socket = net::UdpSocket::open(any_port(), {});
    ASSERT_TRUE(socket) << socket.error().message;
    others.push_back(std::move(*socket));
  }
  for (int i = 0; i < 100; ++i) {
    const auto dataplane = UserspaceDataplane::start(
        {.listen = any_port(), .threads = 4, .capabilities = {.elements = 4, .slots = 8}});
    ASSERT_TRUE(dataplane) << "start " << i << ": " << dataplane.error().message;
    for (std::uint32_t lane = 1; lane < 4; ++lane)
      EXPECT_EQ((*dataplane)->lane_address(lane).port(), (*dataplane)->lane_address(0).port() + lane);
  }
}

}  // namespace
}  // namespace passing::dataplane
