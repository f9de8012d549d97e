// A communicator as a guest in someone's process: threads, CPU, descriptors, signals, forks.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "communicator/world.h"
#include "temporary.h"

namespace passing::test {
namespace {

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

// Servers start their threads after they have begun to answer, and threads that were joined show for a
// moment.
std::size_t threads_now() {
  std::size_t last = 0;
  for (int same = 0; same < 3;) {
    const std::size_t count = entries("/proc/self/task");
    same = count == last ? same + 1 : 0;
    last = count;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return last;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void all_reduce(World& world) {
  world.run([](Communicator& comm) {
    std::vector<float> data(100'000, 1);
    const auto ended = comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32).wait();
    ASSERT_TRUE(ended) << ended.error().message;
    ASSERT_EQ(data[5], static_cast<float>(comm.size()));
  });
}

class Guest : public testing::TestWithParam<std::string> {};

TEST_P(Guest, ThreadsDescriptorsAndSignals) {
  const LocalSwitch warm;  // what the first use of a library opens once; its HTTP server ignores SIGPIPE
  struct sigaction before[NSIG];
  for (int s = 1; s < NSIG; ++s) sigaction(s, nullptr, &before[s]);
  const std::size_t threads = threads_now();
  std::size_t descriptors = 0;
  for (int round = 0; round < 4; ++round) {
    World world(GetParam(), 4);
    all_reduce(world);
    // The switch of the world has threads of its own.
    if (GetParam() == "ring") {
      EXPECT_LE(threads_now(), threads + 4 * 2);
    }
  }
  descriptors = entries("/proc/self/fd");
  for (int round = 0; round < 4; ++round) {
    World world(GetParam(), 4);
    all_reduce(world);
  }
  EXPECT_EQ(threads_now(), threads);
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  for (int s = 1; s < NSIG; ++s) {
    struct sigaction after {};
    if (sigaction(s, nullptr, &after) != 0) continue;
    EXPECT_EQ(after.sa_handler, before[s].sa_handler) << "signal " << s;
  }
}

TEST_P(Guest, IdleUsesNoCpu) {
  World world(GetParam(), 4);
  all_reduce(world);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  // Four communicators; heartbeats of the switch's members are all there is.
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

// Data loaders fork. The child may look at the communicator, drop it, exit; the parent goes on.
TEST_P(Guest, SurvivesAFork) {
  World world(GetParam(), 3);
  all_reduce(world);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      const auto ended = world.at(0).barrier().wait();
      const bool right = !ended && ended.error().message.find("fork") != std::string::npos;
      world.drop(0);
      _exit(right ? 0 : 1);
    }
    all_reduce(world);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    all_reduce(world);
  }
}

TEST_P(Guest, InAForkNothingHangs) {
  World world(GetParam(), 2);
  const Operation pending = world.at(0).barrier();
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    bool right = !pending.wait() && world.at(0).error();
    Config alone;
    auto fresh = Communicator::create(alone);
    right = right && fresh;
    world.at(0) = std::move(*fresh);  // the old one goes without its thread
    right = right && world.at(0).barrier().wait();
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(world.at(1).barrier().wait());
  EXPECT_TRUE(pending.wait());
}

// A child of a fork keeps sockets open; that must not keep a lost connection alive in the parent.
TEST(Processes, APeerGoesWhileAForkHoldsItsSocket) {
  const TemporaryDirectory directory;
  const auto create = [&](std::uint32_t rank) {
    Config config;
    config.rank = rank;
    config.size = 2;
    config.directory = directory.path();
    config.create_timeout = std::chrono::seconds(20);
    return Communicator::create(config);
  };
  const pid_t peer = fork();
  if (peer == 0) {
    alarm(30);
    auto comm = create(1);
    const bool right = comm && comm->barrier().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    comm = tl::unexpected(Error{});  // leaves
    _exit(right ? 0 : 1);
  }
  auto comm = create(0);
  ASSERT_TRUE(comm) << comm.error().message;
  ASSERT_TRUE(comm->barrier().wait());
  const pid_t loader = fork();
  if (loader == 0) {
    alarm(30);
    pause();
    _exit(0);
  }
  int status = 0;
  waitpid(peer, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(cpu_seconds() - before, 0.1);
  EXPECT_FALSE(comm->barrier().wait());
  kill(loader, SIGKILL);
  waitpid(loader, &status, 0);
}

#ifndef __SANITIZE_ADDRESS__  // the undefined-behaviour sanitizer needs descriptors for its own checks
TEST_P(Guest, TooFewDescriptors) {
  const LocalSwitch controller;
  const LocalServers servers(1);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  // Whatever number is left, create() succeeds or says what to do.
  int failed = 0;
  for (rlim_t spare = 0; spare < 12; ++spare) {
    const rlimit tight{entries("/proc/self/fd") - 1 + spare, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &tight);
    Config config;
    config.size = 2;
    config.strategy = GetParam();
    config.controller = controller.controller();
    config.token = "a token for tests";
    config.servers = servers.addresses();
    config.exchange = [](const std::string&) -> Expected<std::vector<std::string>> {
      return tl::unexpected(Error{ErrorCode::deadline, "nobody else is here", {}});
    };
    const auto made = Communicator::create(config);
    setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_FALSE(made);
    if (made.error().message == "nobody else is here") continue;
    ++failed;
    EXPECT_EQ(made.error().code, ErrorCode::no_capacity) << made.error().message;
    EXPECT_NE(made.error().message.find("ulimit -n"), std::string::npos) << made.error().message;
  }
  EXPECT_GT(failed, 0);
}

// Later too: whoever has none left says so, and blames nobody else. All may know rank 0 from the beginning,
// so it is about another.
TEST_P(Guest, TooFewDescriptorsForConnections) {
  World world(GetParam(), 3, [](Config& config) { config.timeout = std::chrono::seconds(3); });
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  // All that there are.
  const rlimit tight{64 + entries("/proc/self/fd"), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<int> hoard;
  for (int each = dup(0); each >= 0; each = dup(0)) hoard.push_back(each);
  const auto ended = world.at(1).barrier().wait();
  for (const int each : hoard) ::close(each);
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::no_capacity) << ended.error().message;
  EXPECT_NE(ended.error().message.find("ulimit -n"), std::string::npos) << ended.error().message;
  EXPECT_EQ(ended.error().members, std::vector<std::uint16_t>{1});
}
#endif

INSTANTIATE_TEST_SUITE_P(Strategies, Guest, testing::ValuesIn(strategies()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace passing::test
