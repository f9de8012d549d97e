// docs/controller.md: a controller that accepts and says nothing keeps nobody longer than he wants.
#include "net/controller_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "net/waiting.h"

namespace passing::net {
namespace {

// Connections are made, and nobody reads from them.
class SilentServer {
 public:
  SilentServer() : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    good_ = bind(descriptor_, any, length) == 0 && listen(descriptor_, 16) == 0 &&
            getsockname(descriptor_, any, &length) == 0;
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { close(descriptor_); }

  bool good() const { return good_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int descriptor_;
  std::uint16_t port_ = 0;
  bool good_ = false;
};

// Seconds, and the request must have failed.
double seconds_of(const ControllerClient& client, bool patient) {
  const Time begun = monotonic_now();
  const auto state = client.look("job", 1, 0, patient);
  EXPECT_FALSE(state);
  if (!state) {
    EXPECT_EQ(state.error().code, ErrorCode::unreachable) << state.error().message;
  }
  return static_cast<double>(monotonic_now() - begun) / kSecond;
}

TEST(ControllerClient, WaitsForItsTimeoutAndNoLonger) {
  const SilentServer server;
  ASSERT_TRUE(server.good());
  const double seconds = seconds_of({server.address(), {.timeout = 300 * kMillisecond}}, false);
  EXPECT_GE(seconds, 0.3);
  EXPECT_LT(seconds, 2);
}

TEST(ControllerClient, RepeatsNothingPastItsDeadline) {
  const SilentServer server;
  ASSERT_TRUE(server.good());
  const ControllerClient client(
      server.address(), {.timeout = 400 * kMillisecond, .deadline = monotonic_now() + 600 * kMillisecond});
  const double seconds = seconds_of(client, true);
  EXPECT_GE(seconds, 0.6);
  EXPECT_LT(seconds, 2.5);
}

TEST(ControllerClient, IsInterrupted) {
  const SilentServer server;
  ASSERT_TRUE(server.good());
  const int interrupt = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_GE(interrupt, 0);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::uint64_t one = 1;
    EXPECT_EQ(write(interrupt, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  });
  EXPECT_LT(seconds_of({server.address(), {.interrupt = interrupt}}, false), 3);
  later.join();
  close(interrupt);
}

}  // namespace
}  // namespace passing::net
