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

namespace passing::test {
namespace {

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

// Servers start their threads after they have begun to answer, and threads that were joined show for a moment.
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

#ifndef __SANITIZE_ADDRESS__  // the undefined-behaviour sanitizer needs descriptors for its own checks
TEST_P(Guest, TooFewDescriptors) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  // Whatever number is left, create() succeeds or says what to do.
  int failed = 0;
  for (rlim_t spare = 0; spare < 12; ++spare) {
    const rlimit tight{entries("/proc/self/fd") - 1 + spare, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &tight);
    Config config;
    config.size = 2;
    config.strategy = "ring";
    config.exchange = [](const std::string&) -> Expected<std::vector<std::string>> {
      return tl::unexpected(Error{ErrorCode::deadline, "nobody else is here", {}});
    };
    const auto made = Communicator::create(config);
    setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_FALSE(made);
    if (made.error().message == "nobody else is here") continue;
    ++failed;
    EXPECT_NE(made.error().message.find("ulimit -n"), std::string::npos) << made.error().message;
  }
  EXPECT_GT(failed, 0);
}
#endif

INSTANTIATE_TEST_SUITE_P(Strategies, Guest, testing::Values("ring", "in_network"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace passing::test
