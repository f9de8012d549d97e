// A process that has too few descriptors to create a communicator: whatever it lacks them for, the error is
// no_capacity and names the remedy.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "communicator/world.h"
#include "temporary.h"

namespace passing::test {
namespace {

struct Way {
  const char* name;
  const char* strategy;
  const char* hosts;    // of the two ranks
  const char* meeting;  // where they find each other: a function, the directory, the controller
};

// Gives the blob to the other rank, and takes its.
Exchange over(int socket, std::uint32_t rank) {
  return [=](const std::string& blob) -> Expected<std::vector<std::string>> {
    std::string other(65536, 0);
    static_cast<void>(!::write(socket, blob.data(), blob.size()));
    const ssize_t got = ::read(socket, other.data(), other.size());
    if (got <= 0) return tl::unexpected(Error{ErrorCode::peer_lost, "the other rank has gone", {}});
    other.resize(static_cast<std::size_t>(got));
    return rank == 0 ? std::vector{blob, other} : std::vector{other, blob};
  };
}

// So many more than are open now. The limit is one of numbers: those that are free below the highest are used
// up first.
void allow(rlim_t spare) {
  int highest = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    highest = std::max(highest, std::stoi(each.path().filename()));
  int next = dup(0);
  while (next >= 0 && next < highest) next = dup(0);
  ::close(next);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  // Both: the library raises the first to the second.
  limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(next) + spare;
  setrlimit(RLIMIT_NOFILE, &limit);
}

class TooFew : public testing::TestWithParam<Way> {
 protected:
  // Two processes; the second has few descriptors. What it says: a digit, and a sentence.
  std::string attempt(rlim_t spare) {
    // The last one may not know yet that the ranks of its job are gone.
    servers_.emplace(1);
    int sockets[2];
    int result[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    EXPECT_EQ(pipe(result), 0);
    pid_t ranks[2];
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      ranks[rank] = fork();
      if (ranks[rank] != 0) continue;
      alarm(30);
      ::close(sockets[1 - rank]);
      ::close(result[0]);
      const Config config = config_of(rank, spare, sockets[rank]);
      if (rank == 1) allow(spare);
      const auto made = Communicator::create(config);
      if (rank == 0) {
        ::close(result[1]);
        pause();
      }
      const std::string said =
          made ? "0" : std::to_string(static_cast<int>(made.error().code)) + made.error().message;
      static_cast<void>(!::write(result[1], said.data(), said.size()));
      _exit(0);
    }
    for (const int each : {sockets[0], sockets[1], result[1]}) ::close(each);
    // The first may still wait for the second.
    waitpid(ranks[1], nullptr, 0);
    kill(ranks[0], SIGKILL);
    waitpid(ranks[0], nullptr, 0);
    std::string said(4096, 0);
    said.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(result[0], said.data(), said.size()))));
    ::close(result[0]);
    return said;
  }

 private:
  Config config_of(std::uint32_t rank, rlim_t spare, int socket) const {
    const std::string meeting = GetParam().meeting;
    Config config;
    config.rank = rank;
    config.size = 2;
    config.job = "few-" + std::to_string(spare);
    config.host = GetParam().hosts[rank];
    config.strategy = GetParam().strategy;
    config.slots = 4;
    config.quiet = true;
    config.create_timeout = std::chrono::seconds(5);
    config.token = "a token for tests";
    config.controller = switch_.controller();
    config.servers = servers_->addresses();
    if (meeting == "function") config.exchange = over(socket, rank);
    if (meeting == "directory") config.directory = directory_.path();
    return config;
  }

  LocalSwitch switch_;
  std::optional<LocalServers> servers_;
  TemporaryDirectory directory_;
};

#ifndef __SANITIZE_ADDRESS__  // the undefined-behaviour sanitizer needs descriptors for its own checks
TEST_P(TooFew, ToCreate) {
  constexpr rlim_t kMost = 60;
  const auto capacity = std::to_string(static_cast<int>(ErrorCode::no_capacity));
  rlim_t spare = 0;
  for (; spare < kMost; ++spare) {
    const std::string said = attempt(spare);
    if (said == "0") break;
    EXPECT_EQ(said.substr(0, 1), capacity) << spare << " descriptors: " << said;
    EXPECT_NE(said.find("raise the limit of descriptors (ulimit -n)"), std::string::npos)
        << spare << " descriptors: " << said;
  }
  EXPECT_GT(spare, 3U);
  EXPECT_LT(spare, kMost);
}

INSTANTIATE_TEST_SUITE_P(Ways, TooFew,
                         testing::Values(Way{"ring", "ring", "ab", "function"},
                                         Way{"shared", "ring_hierarchical", "aa", "function"},
                                         Way{"passing", "passing", "ab", "function"},
                                         Way{"in_network", "in_network", "ab", "function"},
                                         Way{"ps", "ps", "ab", "function"},
                                         Way{"directory", "ring", "ab", "directory"},
                                         Way{"controller", "ring", "ab", "controller"}),
                         [](const auto& each) { return each.param.name; });
#endif

}  // namespace
}  // namespace passing::test
