// docs/inhost.md section 5: who dies, leaves, is late or disagrees is named on every rank, and nothing is
// left.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "inhost/company.h"
#include "inhost/operation.h"
#include "seed.h"

namespace passing::test {
namespace {

using inhost::Host;
using Ranks = std::vector<std::uint16_t>;

void nap(std::uint64_t microseconds) { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); }

std::size_t lines_with(const char* file, const std::string& text) {
  std::ifstream in(file);
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) count += line.find(text) != std::string::npos ? 1 : 0;
  return count;
}

std::size_t descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// All-reduces without end, of sizes and buffers that change.
Expected<void> go_on(Host& host, Duration patience) {
  constexpr std::size_t kMost = 400'000;
  std::vector<float> data(kMost, 1.0F);
  auto shared = host.allocate(kMost * sizeof(float));
  if (!shared) return tl::unexpected(shared.error());
  for (std::uint64_t i = 0;; ++i) {
    const std::size_t count = i % 3 == 0 ? 100 : kMost - i % 7;
    void* where = i % 2 == 0 ? *shared : data.data();
    const auto ended = host.all_reduce(
        {.input = where, .output = where, .count = count, .deadline = inhost::now() + patience});
    if (!ended) return ended;
  }
}

class Faults : public testing::TestWithParam<std::size_t> {};

TEST_P(Faults, Killed) {
  const std::size_t ranks = GetParam();
  std::mt19937 random(static_cast<unsigned>(ranks));
  for (int round = 0; round < 12; ++round) {
    const std::size_t victim = random() % ranks;
    Processes processes(ranks, [](Host& host) { return go_on(host, 60 * kSecond); });
    processes.await_joined();
    nap(random() % 20'000);
    processes.signal(victim, SIGKILL);
    const Time killed = inhost::now();
    for (std::size_t r = 0; r < ranks; ++r) {
      const Report report = processes.join(r);
      if (r == victim) continue;
      EXPECT_EQ(report.code, static_cast<int>(ErrorCode::peer_lost)) << report.message;
      EXPECT_EQ(report.members, Ranks{static_cast<std::uint16_t>(victim)});
      EXPECT_EQ(report.message, "rank " + std::to_string(victim) + " has died");
    }
    EXPECT_LT(inhost::now() - killed, 10 * kSecond);
  }
}

TEST_P(Faults, Stopped) {
  const std::size_t ranks = GetParam();
  std::mt19937 random(static_cast<unsigned>(ranks));
  for (int round = 0; round < 3; ++round) {
    const std::size_t victim = random() % ranks;
    Processes processes(ranks, [](Host& host) { return go_on(host, kSecond); });
    processes.await_joined();
    nap(random() % 20'000);
    processes.signal(victim, SIGSTOP);
    for (std::size_t r = 0; r < ranks; ++r) {
      if (r == victim) continue;
      const Report report = processes.join(r);
      EXPECT_EQ(report.code, static_cast<int>(ErrorCode::deadline)) << report.message;
      EXPECT_EQ(report.members, Ranks{static_cast<std::uint16_t>(victim)}) << report.message;
    }
    // And it is told itself, when it goes on.
    processes.signal(victim, SIGCONT);
    const Report report = processes.join(victim);
    EXPECT_FALSE(report.good);
    EXPECT_EQ(report.members, Ranks{static_cast<std::uint16_t>(victim)}) << report.message;
  }
}

TEST_P(Faults, Leaves) {
  const std::size_t ranks = GetParam();
  const std::size_t victim = ranks / 2;
  Processes processes(ranks, [&](Host& host) -> Expected<void> {
    std::vector<float> data(50'000, 1.0F);
    const inhost::Call call{.input = data.data(),
                            .output = data.data(),
                            .count = data.size(),
                            .deadline = inhost::now() + 60 * kSecond};
    if (auto ended = host.all_reduce(call); !ended) return ended;
    if (host.index() == victim) return {};
    auto ended = host.all_reduce(call);
    if (ended) return ended;
    auto again = host.all_reduce(call);  // and so for ever
    if (again || again.error().message != ended.error().message)
      return fail(ErrorCode::cancelled, "not the same");
    return ended;
  });
  for (std::size_t r = 0; r < ranks; ++r) {
    const Report report = processes.join(r);
    if (r == victim) {
      EXPECT_TRUE(report.good) << report.message;
      continue;
    }
    EXPECT_EQ(report.code, static_cast<int>(ErrorCode::peer_lost)) << report.message;
    EXPECT_EQ(report.members, Ranks{static_cast<std::uint16_t>(victim)});
    EXPECT_NE(report.message.find("has left the host before operation 1"), std::string::npos)
        << report.message;
  }
}

TEST_P(Faults, Disagree) {
  const std::size_t ranks = GetParam();
  const auto odd = static_cast<std::uint16_t>(ranks - 1);
  for (const int what : {0, 1, 2, 3}) {
    in_threads(ranks, {}, [&](Host& host) {
      const bool other = host.index() == odd;
      std::vector<std::int64_t> data(70'000, 1);
      inhost::Call call{.input = data.data(),
                        .output = data.data(),
                        .count = 70'000,
                        .deadline = inhost::now() + 60 * kSecond};
      if (other && what == 0) call.count = 50;
      if (other && what == 1) call.type = DataType::int64;
      if (other && what == 2) call.reduction = Reduction::max;
      if (other && what == 3) call.owners = 1;
      const auto ended = host.all_reduce(call);
      ASSERT_FALSE(ended);
      EXPECT_EQ(ended.error().code, ErrorCode::disagreement) << ended.error().message;
      EXPECT_EQ(ended.error().members.size(), 2U);
      EXPECT_EQ(ended.error().members.back(), odd) << ended.error().message;
      EXPECT_NE(ended.error().message.find("sum of 70000 float32"), std::string::npos)
          << ended.error().message;
    });
  }
}

TEST_P(Faults, Cancelled) {
  in_threads(GetParam(), {}, [&](Host& host) {
    std::vector<float> data(70'000, 1);
    if (host.index() == 1) {
      nap(20'000);
      host.cancel();
    }
    const auto ended = host.all_reduce({.input = data.data(),
                                        .output = data.data(),
                                        .count = data.size(),
                                        .deadline = inhost::now() + 60 * kSecond});
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::cancelled);
    EXPECT_EQ(ended.error().members, Ranks{1});
  });
}

// Who sleeps in poll hears of a death at once, without a timer.
TEST_P(Faults, KilledWhileInPoll) {
  const std::size_t ranks = GetParam();
  Processes processes(ranks, [&](Host& host) -> Expected<void> {
    if (host.index() == 0) {
      nap(600'000'000);
      return {};
    }
    std::vector<float> data(70'000, 1);
    inhost::Operation operation(host, {.input = data.data(), .output = data.data(), .count = data.size()});
    while (!host.trouble()) {
      if (operation.progress() || !host.sleep(operation.awaited())) continue;
      pollfd source{host.descriptor(), POLLIN, 0};
      poll(&source, 1, -1);
      host.look();
    }
    return tl::unexpected(*host.trouble());
  });
  processes.await_joined();
  nap(10'000);
  processes.signal(0, SIGKILL);
  for (std::size_t r = 1; r < ranks; ++r) EXPECT_EQ(processes.join(r).message, "rank 0 has died");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Faults, testing::Values(2, 3, 5, 16), testing::PrintToStringParamName());

// Section 3: where a rank that has died or stands still is, by what it has left in the shared memory.
std::string stage_of(const Host& host, std::size_t victim) {
  const auto& header = *reinterpret_cast<const inhost::Header*>(host.part(0) - sizeof(inhost::Header));
  const auto count = [&](inhost::Stage stage) { return header.rank[victim].stages[stage].count.load(); };
  const std::uint64_t pieces = count(inhost::given);
  if (count(inhost::taken) == pieces) return "give";  // or about to call
  if (count(inhost::added) < pieces) return "sum";
  return count(inhost::summed) < pieces ? "publish" : "take";
}

/// All-reduces without end that spend about as long before each stage, sums away for a while as if they were
/// on their way to the switch.
Expected<void> linger(Host& host, Duration patience) {
  std::vector<float> data(30'000, 1.0F);
  for (;;) {
    nap(100);
    inhost::Operation operation(host, {.input = data.data(), .output = data.data(), .count = data.size()},
                                true);
    std::vector<float> sums(operation.stripe().count);
    std::size_t summed = 0;
    std::size_t published = 0;
    while (!operation.done()) {
      if (host.trouble()) return tl::unexpected(*host.trouble());
      bool moved = operation.give();
      if (moved) nap(100);
      if (const auto ready = operation.ready(); ready.count > 0) {
        static_cast<void>(operation.sum(ready.count, sums.data() + summed));
        summed += ready.count;
        nap(100);
        moved = true;
      }
      const std::size_t through = operation.publish(sums.data() + published, summed - published);
      published += through;
      if (through > 0) nap(100);
      moved = operation.take() || moved || through > 0;
      if (!moved) host.wait(operation.awaited(true, published < summed), inhost::now() + patience);
    }
  }
}

// The delay is random; which stage it met is known afterwards. As many rounds as it takes to meet them all.
class InEveryStage : public testing::TestWithParam<int> {
 protected:
  static constexpr std::size_t kRanks = 3;
  static constexpr std::size_t kAtOnce = 12;  // those that are stopped wait for their deadlines together

  struct Round {
    std::size_t victim;
    std::unique_ptr<Processes> processes;
  };

  Round begin() {
    const std::size_t victim = random_() % kRanks;
    const Duration patience = GetParam() == SIGKILL ? 60 * kSecond : kSecond;
    auto processes = std::make_unique<Processes>(kRanks, [=](Host& host) -> Expected<void> {
      const auto ended = linger(host, patience);
      return fail(ended.error().code, stage_of(host, victim) + ": " + ended.error().message,
                  ended.error().members);
    });
    processes->await_joined();
    nap(1000 + random_() % 5000);
    processes->signal(victim, GetParam());
    return {victim, std::move(processes)};
  }
  void end(const Round& round) {
    for (std::size_t r = 0; r < kRanks; ++r) {
      if (r == round.victim) continue;
      const Report report = round.processes->join(r);
      EXPECT_EQ(report.code,
                static_cast<int>(GetParam() == SIGKILL ? ErrorCode::peer_lost : ErrorCode::deadline))
          << report.message;
      EXPECT_EQ(report.members, Ranks{static_cast<std::uint16_t>(round.victim)}) << report.message;
      ++hits_[report.message.substr(0, report.message.find(':'))];
    }
  }
  bool all_hit() {
    return hits_["give"] > 0 && hits_["sum"] > 0 && hits_["publish"] > 0 && hits_["take"] > 0;
  }

  std::mt19937 random_{random_seed()};
  std::map<std::string, int> hits_;
};

TEST_P(InEveryStage, IsNamed) {
  for (int batch = 0; batch < 10 && !all_hit() && !HasFailure(); ++batch) {
    std::vector<Round> rounds;
    for (std::size_t i = 0; i < kAtOnce; ++i) rounds.push_back(begin());
    for (const Round& each : rounds) end(each);
  }
  for (const auto& [stage, times] : hits_) std::printf("in %s: %d\n", stage.c_str(), times);
    // Instrumented, sums take so long that the short stages are rarely met.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_TRUE(all_hit());
#endif
}

INSTANTIATE_TEST_SUITE_P(Faults, InEveryStage, testing::Values(SIGKILL, SIGSTOP),
                         [](const auto& each) { return each.param == SIGKILL ? "Killed" : "Stopped"; });

// A child that a rank forks is not the rank: neither does its end mean anything, nor does it hide the rank's.
TEST(FaultsOfOneHost, ForkedChildren) {
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  Processes processes(3, [&](Host& host) -> Expected<void> {
    ::close(hold[1]);
    pid_t child = fork();
    if (child == 0) {
      host.~Host();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    std::vector<float> data(50'000, 1.0F);
    const inhost::Call call{.input = data.data(),
                            .output = data.data(),
                            .count = data.size(),
                            .deadline = inhost::now() + 60 * kSecond};
    if (auto ended = host.all_reduce(call); !ended) return ended;
    if (host.index() != 0) return host.all_reduce(call);
    if (fork() == 0) {
      char nothing = 0;
      [[maybe_unused]] const auto got = ::read(hold[0], &nothing, 1);
      _exit(0);
    }
    raise(SIGKILL);
    return {};
  });
  for (const std::size_t r : {1U, 2U}) EXPECT_EQ(processes.join(r).message, "rank 0 has died");
  ::close(hold[1]);
  ::close(hold[0]);
}

TEST(FaultsOfOneHost, NothingIsLeft) {
  in_threads(2, {}, [](Host&) {});  // what the first use of a library opens once
  const std::size_t before = descriptors();
  const std::size_t maps = lines_with("/proc/self/maps", "passing");
  for (int i = 0; i < 10; ++i) {
    in_threads(4, {}, [](Host& host) {
      ASSERT_TRUE(host.allocate(1 << 20));
      std::vector<float> data(1000, 1);
      ASSERT_TRUE(host.all_reduce({.input = data.data(),
                                   .output = data.data(),
                                   .count = data.size(),
                                   .deadline = inhost::now() + 60 * kSecond}));
    });
  }
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(lines_with("/proc/self/maps", "memfd:passing"), 0U);
  EXPECT_EQ(lines_with("/proc/self/maps", "passing"), maps);
  {
    Processes processes(4, [](Host& host) { return go_on(host, 60 * kSecond); });
    processes.await_joined();
    for (std::size_t r = 0; r < 4; ++r) processes.signal(r, SIGKILL);
  }
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace passing::test
