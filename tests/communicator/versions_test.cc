// Ranks with another version of the library: every rank of the group hears both versions, however different
// what the other one gives is.
#include <gtest/gtest.h>

#include <chrono>

#include "base/bytes.h"
#include "communicator/messages.h"
#include "communicator/world.h"
#include "passing/passing.h"

namespace passing::test {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::uint32_t kOther = 1;  // the rank with another version

// What create() says on each rank, if each takes those of the other version for what `change` makes of them.
std::vector<Error> refusals(const std::function<std::string(Introduction)>& change) {
  Table table(kRanks);
  std::vector<Error> errors(kRanks);
  parallel(kRanks, [&](std::uint32_t rank) {
    Config config;
    config.rank = rank;
    config.size = kRanks;
    config.strategy = "ring";
    config.exchange = [&, rank](const std::string& blob) {
      auto blobs = table.exchange(rank)(blob);
      for (std::uint32_t r = 0; blobs && r < kRanks; ++r) {
        if ((r == kOther) != (rank == kOther)) (*blobs)[r] = change(*Introduction::decode((*blobs)[r]));
      }
      return blobs;
    };
    const auto begin = std::chrono::steady_clock::now();
    const auto made = Communicator::create(config);
    ASSERT_FALSE(made) << "rank " << rank;
    errors[rank] = made.error();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << made.error().message;
  });
  return errors;
}

void expect_both(const std::vector<Error>& errors, const std::string& version) {
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    const std::string& text = errors[r].message;
    const std::uint32_t named = r == kOther ? 0 : kOther;
    EXPECT_EQ(errors[r].code, ErrorCode::disagreement) << text;
    EXPECT_EQ(errors[r].members,
              (std::vector{static_cast<std::uint16_t>(named), static_cast<std::uint16_t>(r)}));
    EXPECT_EQ(text.find("rank " + std::to_string(named)), 0U) << text;
    EXPECT_NE(text.find(" has version " + version + " of the library, rank " + std::to_string(r) + " at "),
              std::string::npos)
        << text;
    EXPECT_NE(text.find(std::string(" has ") + passing_version() + ": give all ranks the same"),
              std::string::npos)
        << text;
  }
}

TEST(Versions, OlderAndNewer) {
  for (const char* version : {"0.0.1", "99.1.0", "99.1.0-rc1+local"}) {
    expect_both(refusals([version](Introduction other) {
                  other.version = version;
                  return other.encode();
                }),
                version);
  }
}

// Only that the version comes first is for ever.
TEST(Versions, AnotherLayout) {
  const auto rests = {std::string(), std::string(1, '\0'), std::string(10'000, '\xFF'),
                      Writer().put(std::string("something new")).put(1.5).take()};
  for (const std::string& rest : rests) {
    expect_both(
        refusals([&rest](const Introduction&) { return Writer().put(std::string("99.1.0")).take() + rest; }),
        "99.1.0");
  }
}

TEST(Versions, LongerAndShorter) {
  expect_both(refusals([](Introduction other) {
                other.version = "99.1.0";
                return other.encode() + "more";
              }),
              "99.1.0");
  expect_both(refusals([](Introduction other) {
                other.version = "0.0.1";
                const std::string all = other.encode();
                return all.substr(0, all.size() - 9);
              }),
              "0.0.1");
}

// It explains whatever else is wrong with what it gave.
TEST(Versions, BeforeAnythingElse) {
  expect_both(refusals([](Introduction other) {
                other.version = "99.1.0";
                other.trouble = "it has no memory";
                other.strategy = "another";
                other.size = 77;
                return other.encode();
              }),
              "99.1.0");
}

// Not even that can be read: nobody is said to have a version.
TEST(Versions, Unreadable) {
  const auto rests = {std::string(), std::string("\x06\0\0", 3), Writer().put(std::string("9\n1")).take(),
                      Writer().put(std::string(65, '9')).take(),
                      Introduction{.version = passing_version()}.encode() + "more"};
  for (const std::string& rest : rests) {
    for (const Error& each : refusals([&rest](const Introduction&) { return rest; })) {
      EXPECT_EQ(each.code, ErrorCode::disagreement) << each.message;
      EXPECT_NE(each.message.find("cannot be read: do all ranks run the same version?"), std::string::npos)
          << each.message;
    }
  }
}

}  // namespace
}  // namespace passing::test
