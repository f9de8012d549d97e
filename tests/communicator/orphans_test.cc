// docs/inhost.md section 5: a rank that is killed is missed at once, also if its children hold its sockets
// open.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "passing/communicator.h"

namespace passing {
namespace {

using Clock = std::chrono::steady_clock;

Config one_of_two(std::uint32_t rank, const std::string& directory) {
  Config config;
  config.rank = rank;
  config.size = 2;
  config.strategy = "passing";
  config.directory = directory;
  config.timeout = std::chrono::seconds(30);
  config.create_timeout = std::chrono::seconds(20);
  return config;
}

Expected<void> sum(Communicator& comm, std::vector<float>& data) {
  return comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32).wait();
}

// Takes part in one operation, starts a child that outlives it, as a data loader does, and dies.
[[noreturn]] void die_with_a_child(const std::string& directory, int report) {
  alarm(60);
  auto comm = Communicator::create(one_of_two(1, directory));
  std::vector<float> data(1000, 1);
  if (!comm || !sum(*comm, data)) _exit(1);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    pause();
    _exit(0);
  }
  static_cast<void>(!write(report, &child, sizeof child));
  usleep(200'000);  // the other one waits by now
  kill(getpid(), SIGKILL);
  _exit(1);
}

class Orphans : public testing::TestWithParam<std::size_t> {};

TEST_P(Orphans, AreNoSignOfLife) {
  const std::string directory = testing::TempDir() + "passing-orphans-" + std::to_string(getpid());
  std::filesystem::create_directories(directory);
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t neighbour = fork();
  if (neighbour == 0) die_with_a_child(directory, report[1]);
  {
    auto comm = Communicator::create(one_of_two(0, directory));
    ASSERT_TRUE(comm) << comm.error().message;
    std::vector<float> data(1000, 1);
    ASSERT_TRUE(sum(*comm, data));
    EXPECT_EQ(data[0], 2);
    data.resize(GetParam());
    const auto begin = Clock::now();
    const auto ended = sum(*comm, data);
    ASSERT_FALSE(ended);
    EXPECT_NE(ended.error().message.find("rank 1 at"), std::string::npos) << ended.error().message;
    EXPECT_EQ(ended.error().members, std::vector<std::uint16_t>{1});
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  }
  pid_t child = 0;
  ASSERT_EQ(read(report[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  kill(child, SIGKILL);
  waitpid(neighbour, nullptr, 0);
  close(report[0]);
  close(report[1]);
  std::filesystem::remove_all(directory);
}

// Small ones are summed by everyone, large ones by stripes.
INSTANTIATE_TEST_SUITE_P(Elements, Orphans, testing::Values(100, 1'000'000),
                         [](const auto& each) { return std::to_string(each.param); });

}  // namespace
}  // namespace passing
