// How ranks find each other through a directory; ranks are threads here.
#include "net/rendezvous.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "net/hex.h"
#include "temporary.h"
#include "unit/meeting.h"

namespace passing::net {
namespace {

namespace fs = std::filesystem;
TEST(Hex, AnyBytesAndNothingElse) {
  for (const std::string& bytes : {std::string(), std::string("\0\xff\n", 3), random_bytes(1000, 1)}) {
    EXPECT_EQ(parse_hex(to_hex(bytes)), bytes);
  }
  EXPECT_EQ(to_hex(std::string("\x01\xaf", 2)), "01af");
  for (const char* bad : {"0", "0g", "G0", "  ", "0A"}) EXPECT_FALSE(parse_hex(bad)) << bad;
}

class Directory : public testing::Test {
 protected:
  Exchange exchange(std::uint32_t size, std::uint32_t rank, Duration timeout = 30 * kSecond) const {
    return directory_exchange({.job = "job", .rank = rank, .size = size, .timeout = timeout}, directory_);
  }
  std::vector<Outcome> meet_all(const Gifts& blobs) const {
    return meet(blobs,
                [&](std::uint32_t rank) { return exchange(static_cast<std::uint32_t>(blobs.size()), rank); });
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) names.insert(entry.path().filename());
    return names;
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ + "/" + name, std::ios::binary) << text;
  }

  test::TemporaryDirectory place_;
  std::string directory_ = place_.path();
};

TEST_F(Directory, AllSizes) {
  for (const std::uint32_t size : {1U, 2U, 5U, 16U}) {
    const Gifts blobs = some_blobs(size);
    expect_met(meet_all(blobs), blobs);
    EXPECT_EQ(files(), std::set<std::string>()) << "files are left";
  }
}

TEST_F(Directory, EmptyAndLargeBlobs) {
  const Gifts blobs = {"", random_bytes(1U << 20, 1), "\n\n x \n", random_bytes(1U << 20, 2), ""};
  expect_met(meet_all(blobs), blobs);
}

TEST_F(Directory, IsMadeIfMissing) {
  directory_ += "/some/where";
  const Gifts blobs = some_blobs(2);
  expect_met(meet_all(blobs), blobs);
  EXPECT_TRUE(fs::is_directory(directory_));
}

TEST_F(Directory, ThatCannotBeIsNamed) {
  write("file", "");
  const std::string file = directory_ + "/file";
  const auto outcome = directory_exchange({.job = "job", .rank = 0, .size = 1}, file + "/below")("");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(outcome.error().message,
            "cannot make directory '" + file +
                "/below': Not a directory; set PASSING_DIRECTORY to one that all ranks share and may write");
  const auto odd = directory_exchange({.job = "no/where", .rank = 0, .size = 1}, directory_)("");
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().message.find("cannot write '" + directory_ + "/no/where.0.hello': No such file"), 0U)
      << odd.error().message;
}

TEST_F(Directory, ManyMeetingsOneAfterAnother) {
  constexpr std::uint32_t kSize = 5;
  constexpr int kMeetings = 20;
  std::atomic<int> right = 0;
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      for (std::uint32_t i = 0; i < kMeetings; ++i) {
        const Gifts blobs = some_blobs(kSize, 100 * i);
        const auto outcome = exchange(kSize, rank)(blobs[rank]);
        if (outcome && *outcome == blobs) ++right;
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(right, kMeetings * static_cast<int>(kSize));
}

TEST_F(Directory, WhatAnEarlierRunLeftDoesNoHarm) {
  // A run that was killed: everybody had met, nothing was removed.
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const std::string name = "job." + std::to_string(rank);
    write(name + ".hello", std::string(32, 'a') + " host old, process 1\nold blob");
    write(name + ".ready", std::string(16, '0'));
    write(name + ".done", std::string(16, '0'));
  }
  write("job.1.ready", "");
  write("job.2.hello", "");
  write("job.2.done", random_bytes(1000, 3));
  const Gifts blobs = some_blobs(3);
  const auto outcomes = meet(blobs, [&](std::uint32_t rank) {
    sleep_ms(static_cast<int>(100 * rank));  // time enough to believe in the old files
    return exchange(3, rank);
  });
  expect_met(outcomes, blobs);
  EXPECT_EQ(files(), std::set<std::string>());
}

TEST_F(Directory, ARankThatRestartsBeforeAllAreThere) {
  const auto first = exchange(2, 1, 100 * kMillisecond)("of the first process");
  ASSERT_FALSE(first);
  const Gifts blobs = some_blobs(2);
  expect_met(meet_all(blobs), blobs);
}

TEST_F(Directory, AFileThatVanishesIsWrittenAgain) {
  const Gifts blobs = some_blobs(2);
  std::thread vandal([&] {
    sleep_ms(50);
    for (const char* kind : {"hello", "ready"}) fs::remove(directory_ + "/job.0." + kind);
  });
  const auto outcomes = meet(blobs, [&](std::uint32_t rank) {
    sleep_ms(static_cast<int>(200 * rank));
    return exchange(2, rank);
  });
  vandal.join();
  expect_met(outcomes, blobs);
}

TEST_F(Directory, TwoProcessesThatClaimOneRank) {
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> claims;
  for (int i = 0; i < 2; ++i) {
    claims.emplace_back([&, i] {
      sleep_ms(100 * i);
      outcomes[i] = exchange(3, 1, kSecond)("mine");
    });
  }
  for (auto& claim : claims) claim.join();
  ASSERT_FALSE(outcomes[0]);
  EXPECT_EQ(outcomes[0].error().code, ErrorCode::disagreement);
  EXPECT_EQ(outcomes[0].error().members, std::vector<std::uint16_t>{1});
  const std::string text = outcomes[0].error().message;
  EXPECT_EQ(text.find("two processes claim rank 1 of job 'job': host "), 0U) << text;
  const std::string process = "process " + std::to_string(getpid());
  EXPECT_NE(text.find(process), text.rfind(process)) << text;  // both are named
}

TEST_F(Directory, RanksThatNeverComeAreNamed) {
  // Rank 2 is there only by what an earlier run left.
  write("job.2.hello", std::string(32, 'a') + " host old, process 1\nold blob");
  write("job.2.ready", std::string(16, '0'));
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> ranks;
  for (const std::uint32_t rank : {0U, 1U}) {
    ranks.emplace_back([&, rank] { outcomes[rank] = exchange(4, rank, kSecond / 2)("x"); });
  }
  for (auto& rank : ranks) rank.join();
  for (const Outcome& outcome : outcomes) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ErrorCode::deadline);
    EXPECT_EQ(outcome.error().members, (std::vector<std::uint16_t>{2, 3}));
    EXPECT_EQ(outcome.error().message, "job 'job' is not complete after 0.5 s; missing at directory '" +
                                           directory_ +
                                           "': rank 2, 3; start all ranks with the same job and size");
  }
}

TEST_F(Directory, LongListsOfMissingRanksAreCut) {
  const auto outcome = exchange(100, 0, 50 * kMillisecond)("");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().members.size(), 99U);
  EXPECT_NE(outcome.error().message.find("14, 15, 16 and 83 more;"), std::string::npos)
      << outcome.error().message;
}

}  // namespace
}  // namespace passing::net
