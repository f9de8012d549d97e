// docs/server.md: what a server may do before all ranks have begun.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "communicator/world.h"
#include "net/desk.h"
#include "net/mesh.h"
#include "passing/passing.h"
#include "strategy/context.h"

namespace passing::test {
namespace {

// The desk of a server, one rank at a time.
class Desk {
 public:
  Desk() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(::bind(listener_, address_.get(), address_.length), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
    getsockname(listener_, address_.get(), &address_.length);
  }
  ~Desk() {
    ::close(listener_);
    for (const int each : ranks_) ::close(each);
  }
  std::string address() const { return net::to_string(address_); }
  net::Enrolment enrol(const std::string& mesh) {
    const int descriptor = ::accept(listener_, nullptr, nullptr);
    const auto rank = net::Enrolment::decode(hear(descriptor)).value_or(net::Enrolment{.rank = 9});
    if (rank.rank < 2) ranks_[rank.rank] = descriptor;
    say(rank.rank, {.type = net::Answer::Type::accepted, .address = mesh, .index = 0, .of = 1});
    return rank;
  }
  void say(std::uint32_t rank, const net::Answer& answer) {
    const std::string frame = net::framed(answer.encode());
    ASSERT_LT(rank, 2U);
    EXPECT_EQ(::send(ranks_[rank], frame.data(), frame.size(), MSG_NOSIGNAL), std::ssize(frame));
  }
  bool is_content(std::uint32_t rank) {
    const auto answer = net::Answer::decode(hear(ranks_[rank]));
    return answer && answer->type == net::Answer::Type::ready;
  }

 private:
  static std::string hear(int descriptor) {
    std::uint32_t length = 0;
    EXPECT_EQ(::recv(descriptor, &length, 4, MSG_WAITALL), 4);
    std::string message(length, '\0');
    EXPECT_EQ(::recv(descriptor, message.data(), length, MSG_WAITALL), static_cast<ssize_t>(length));
    return message;
  }

  net::SocketAddress address_ = *net::parse_address("127.0.0.1:0");
  int listener_;
  int ranks_[2] = {-1, -1};
};

// Rank 0 has begun, and called, while rank 1 does not know yet that all have joined: the server has something
// for rank 1, and calls it.
TEST(Founding, KnowsItsServersBeforeAllHaveJoined) {
  Desk desk;
  auto mesh = *net::Mesh::create(2, 3, *net::parse_address("127.0.0.1:0"));
  Table table(2);
  std::optional<Communicator> ranks[2];
  std::thread creation([&] {
    parallel(2, [&](std::uint32_t rank) {
      Config config;
      config.rank = rank;
      config.size = 2;
      config.strategy = "ps_hierarchical";
      config.host = "host-" + std::to_string(rank);
      config.exchange = table.exchange(rank);
      config.servers = desk.address();
      config.timeout = config.create_timeout = std::chrono::seconds(20);
      auto made = Communicator::create(config);
      EXPECT_TRUE(made) << made.error().message;
      if (made) ranks[rank].emplace(std::move(*made));
    });
  });
  std::vector<net::SocketAddress> addresses(3, mesh->socket_address());
  net::Enrolment known;
  for (int i = 0; i < 2; ++i) {
    known = desk.enrol(mesh->address());
    addresses.at(known.rank) = *net::parse_numeric_address(known.address);
  }
  for (const std::uint32_t rank : {0U, 1U}) EXPECT_TRUE(desk.is_content(rank));
  mesh->introduce(addresses, known.group, net::key_of(known.token));
  desk.say(1, {.type = net::Answer::Type::ready});

  const int value = 1;
  const auto sent = mesh->send(1, strategy::tags::collective(0, 0, 0, 2), &value, sizeof value);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (!sent->ended() && std::chrono::steady_clock::now() < limit) {
    mesh->progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(sent->status, net::Transfer::Status::done);
  EXPECT_FALSE(mesh->has_lost());

  desk.say(0, {.type = net::Answer::Type::ready});
  creation.join();
  parallel(2, [&](std::uint32_t rank) { ranks[rank].reset(); });
}

}  // namespace
}  // namespace passing::test
