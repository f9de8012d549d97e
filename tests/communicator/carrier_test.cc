// The setting `carrier`: ranks that disagree about it, or cannot use it, say so in one sentence.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "communicator/messages.h"
#include "communicator/world.h"

namespace passing::test {
namespace {

// What create() says on each of three ranks.
std::vector<Error> complaints(const std::function<void(Config&)>& change) {
  static std::atomic<int> jobs = 0;
  const std::string job = "carriers-" + std::to_string(jobs++);
  Table table(3);
  std::vector<Error> said(3);
  parallel(3, [&](std::uint32_t rank) {
    Config config;
    config.rank = rank;
    config.size = 3;
    config.strategy = "ring";
    config.job = job;
    config.exchange = table.exchange(rank);
    change(config);
    const auto made = Communicator::create(config);
    if (!made) said[rank] = made.error();
  });
  return said;
}

TEST(Carrier, MustBeTheSameOnAllRanks) {
  const auto said = complaints([](Config& config) {
    if (config.rank == 1) config.carrier = "memory";
  });
  for (const Error& each : said) {
    EXPECT_EQ(each.code, ErrorCode::disagreement) << each.message;
    // Either rank may come first.
    for (const char* part : {"has carrier ", "tcp", "memory", ": give all ranks the same"})
      EXPECT_NE(each.message.find(part), std::string::npos) << each.message;
  }
}

// Rank 2 says that it is another process.
TEST(Carrier, InMemoryIsForOneProcess) {
  const auto said = complaints([](Config& config) {
    config.carrier = "memory";
    if (config.rank != 2) return;
    config.exchange = [before = config.exchange](const std::string& blob) {
      auto own = Introduction::decode(blob).value();
      ++own.process;
      return before(own.encode());
    };
  });
  for (const Error& each : said) {
    EXPECT_EQ(each.code, ErrorCode::invalid_argument) << each.message;
    EXPECT_NE(each.message.find("carrier is 'memory' but rank "), std::string::npos) << each.message;
    EXPECT_NE(each.message.find("are different processes: set PASSING_CARRIER to tcp"), std::string::npos);
  }
}

// What a rank has sent before it leaves, and the receiver keeps, comes however late it is asked for.
TEST(Carrier, LeavingOvertakesNothing) {
  for (const char* carrier : {"tcp", "memory"}) {
    for (int round = 0; round < 20; ++round) {
      World world("ring", 2, [&](Config& config) { config.carrier = carrier; });
      constexpr std::uint32_t kMessages = 500;
      std::vector<std::uint32_t> out(kMessages);
      std::vector<std::uint32_t> in(kMessages);
      std::vector<Operation> received;
      for (std::uint32_t i = 0; i < kMessages; ++i) out[i] = i;
      for (std::uint32_t i = 0; i < kMessages / 2; ++i)
        received.push_back(world.at(1).recv(&in[i], sizeof in[i], 0, 1));
      for (const std::uint32_t& each : out) static_cast<void>(world.at(0).send(&each, sizeof each, 1, 1));
      world.drop(0);
      for (std::uint32_t i = kMessages / 2; i < kMessages; ++i)
        received.push_back(world.at(1).recv(&in[i], sizeof in[i], 0, 1));
      for (const Operation& each : received) {
        const auto ended = each.wait();
        ASSERT_TRUE(ended) << carrier << ": " << ended.error().message;
      }
      EXPECT_EQ(in, out);
    }
  }
}

// It leaves behind more than the receiver keeps, and nobody takes it: what waits for something else must not
// wait for ever.
TEST(Carrier, LeavingEndsWhatWillNotCome) {
  for (const char* carrier : {"tcp", "memory"}) {
    World world("ring", 2, [&](Config& config) { config.carrier = carrier; });
    const std::vector<char> data(1000);
    std::uint32_t room = 0;
    const auto never = world.at(1).recv(&room, sizeof room, 0, 2);
    for (int i = 0; i < 10'000; ++i) static_cast<void>(world.at(0).send(data.data(), data.size(), 1, 1));
    world.drop(0);
    const auto began = std::chrono::steady_clock::now();
    const auto ended = never.wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, ErrorCode::peer_lost) << ended.error().message;
    EXPECT_NE(ended.error().message.find("has left"), std::string::npos) << ended.error().message;
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(3));
  }
}

// The number of the process is the same, as it may be on two machines. Whoever finds out first goes at once,
// and is not blamed by the others for that.
TEST(Carrier, InMemoryFindsNobodyElsewhere) {
  const auto said = complaints([](Config& config) {
    config.carrier = "memory";
    config.exchange = [rank = config.rank, before = config.exchange](const std::string& blob) {
      auto own = Introduction::decode(blob).value();
      if (rank == 2) own.address = "memory:1";
      return before(own.encode());
    };
  });
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(said[rank].message,
              "rank 2 at 'memory:1' is in another process: between processes use the carrier 'tcp'");
  }
}

}  // namespace
}  // namespace passing::test
