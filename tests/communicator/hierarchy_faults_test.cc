// Hosts that cannot be: every rank of every host hears why, in a sentence with the values.
#include <gtest/gtest.h>

#include <chrono>

#include "communicator/layout.h"
#include "communicator/messages.h"
#include "inhost/forbid.h"

namespace passing::test {
namespace {

using std::chrono::seconds;

// What create() says on each rank.
std::vector<Error> refusals(const std::string& strategy, const Layout& layout,
                            const std::function<void(Config&)>& change) {
  const LocalSwitch local;
  Table table(ranks_of(layout));
  std::vector<Error> errors(layout.size());
  parallel(ranks_of(layout), [&](std::uint32_t rank) {
    Config config;
    config.rank = rank;
    config.size = ranks_of(layout);
    config.strategy = strategy;
    config.controller = local.controller();
    config.token = "a token for tests";
    config.exchange = table.exchange(rank);
    config.create_timeout = seconds(10);
    placed(layout, change)(config);
    const auto begin = std::chrono::steady_clock::now();
    const auto made = Communicator::create(config);
    ASSERT_FALSE(made) << "rank " << rank;
    errors[rank] = made.error();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5)) << made.error().message;
  });
  return errors;
}

void expect_all_say(const std::vector<Error>& errors, ErrorCode code, const std::vector<std::string>& parts) {
  for (const Error& each : errors) {
    EXPECT_EQ(each.code, code) << each.message;
    for (const std::string& part : parts)
      EXPECT_NE(each.message.find(part), std::string::npos) << each.message << " lacks " << part;
  }
}

class BadHosts : public testing::TestWithParam<std::string> {};

TEST_P(BadHosts, LanesDiffer) {
  const auto errors =
      refusals(GetParam(), "aabb", [](Config& config) { config.lanes = config.rank == 1 ? 2 : 1; });
  expect_all_say(errors, ErrorCode::disagreement, {"rank 1 at", "give all ranks the same"});
  for (const Error& each : errors) {
    const bool other_first = each.message.find("has lanes 2") != std::string::npos;
    EXPECT_NE(each.message.find(other_first ? "has 1:" : "has lanes 1"), std::string::npos) << each.message;
    EXPECT_TRUE(other_first || each.message.find("has 2:") != std::string::npos) << each.message;
  }
}

TEST_P(BadHosts, SharedBytesDiffer) {
  expect_all_say(refusals(GetParam(), "abbc",
                          [](Config& config) { config.shared_bytes = config.rank == 2 ? 8 << 20 : 4 << 20; }),
                 ErrorCode::disagreement,
                 {"rank 1 and rank 2", "4194304 and 8388608 bytes", "same settings"});
}

TEST_P(BadHosts, MoreLanesThanRanks) {
  const auto lanes = [](Config& config) { config.lanes = 3; };
  expect_all_say(refusals(GetParam(), "aabb", lanes), ErrorCode::invalid_argument,
                 {"lanes is 3: must be 1 to 2", "host of rank 0 at"});
  expect_all_say(refusals(GetParam(), "aaab", lanes), ErrorCode::invalid_argument,
                 {"lanes is 3: must be 1 to 1", "host of rank 3 at"});
}

// Also where only one host is concerned.
TEST_P(BadHosts, TooLittleSharedMemory) {
  expect_all_say(refusals(GetParam(), "abb", [](Config& config) { config.shared_bytes = 100'000; }),
                 ErrorCode::invalid_argument,
                 {"shared memory is 100000 bytes", "at least 294912 for 2 ranks in a host"});
}

TEST_P(BadHosts, MoreSharedMemoryThanThereCanBe) {
  const auto with = [](std::size_t bytes) {
    return refusals(GetParam(), "aab", [bytes](Config& config) { config.shared_bytes = bytes; });
  };
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2 + 1}) {
    expect_all_say(with(bytes), ErrorCode::invalid_argument,
                   {"shared memory is " + std::to_string(bytes) + " bytes for each rank", "for 2 ranks"});
  }
  // What the system refuses.
  expect_all_say(with(std::size_t{1} << 61), ErrorCode::no_capacity,
                 {"4398046511104 MB of shared memory", "give each rank less"});
}

// Hosts by label and a rank without one, on the same machine: also for those that share with nobody.
TEST_P(BadHosts, ALabelWasForgotten) {
  expect_all_say(refusals(GetParam(), "abba",
                          [](Config& config) {
                            if (config.rank == 2) config.host = "";
                          }),
                 ErrorCode::disagreement,
                 {"rank 0 has the host label 'a', rank 2 on the same machine has none", "PASSING_HOST"});
}

TEST_P(BadHosts, TooManyRanks) {
  expect_all_say(refusals(GetParam(), Layout(65, 'a') + "b", {}), ErrorCode::invalid_argument,
                 {"65 ranks are to share memory: at most 64 can", "different host labels"});
}

// What the system refuses to the first rank of one host, all ranks of all hosts hear.
TEST_P(BadHosts, MemoryIsForbiddenOnOne) {
  const auto errors = refusals(GetParam(), "aabbcd", [](Config& config) {
    if (config.rank == 2) forbid_memfd();  // in its thread only
  });
  expect_all_say(
      errors, ErrorCode::no_capacity,
      {"rank 2 at 127.0.0.1:", "cannot make shared memory (memfd_create: Operation not permitted)"});
  for (const Error& each : errors) EXPECT_EQ(each.members, std::vector<std::uint16_t>{2}) << each.message;
}

// As if rank 1 ran another version of the library: every rank sees only itself as it is.
TEST_P(BadHosts, VersionsDiffer) {
  const auto altered = [](const std::function<std::string(Introduction)>& change) {
    return [change](Config& config) {
      config.exchange = [own = config.rank, meet = config.exchange,
                         change](const std::string& blob) -> Expected<std::vector<std::string>> {
        auto blobs = meet(blob);
        for (std::uint32_t r = 0; blobs && r < blobs->size(); ++r) {
          if ((r == 1) != (own == 1)) (*blobs)[r] = change(*Introduction::decode((*blobs)[r]));
        }
        return blobs;
      };
    };
  };
  const auto errors = refusals(GetParam(), "aabc", altered([](Introduction other) {
                                 other.version = "99.1";
                                 return other.encode();
                               }));
  expect_all_say(errors, ErrorCode::disagreement,
                 {"rank 1 at", "has version 99.1", "give all ranks the same"});
  // One that says things in another way.
  for (const Error& each : refusals(
           GetParam(), "aabc", altered([](const Introduction& other) { return other.encode() + "more"; })))
    EXPECT_NE(each.message.find("cannot be read: do all ranks run the same version?"), std::string::npos)
        << each.message;
}

INSTANTIATE_TEST_SUITE_P(Strategies, BadHosts, testing::Values("passing", "ring_hierarchical", "auto"),
                         [](const auto& each) { return each.param; });

TEST(BadRacks, DomainsDiffer) {
  for (const char* strategy : {"passing", "auto"}) {
    const auto errors = refusals(strategy, "aabc", [](Config& config) {
      if (config.rank != 1) return;
      config.local_domain = "rack";
      config.rack = "left";
    });
    expect_all_say(errors, ErrorCode::disagreement, {"rank 1 at", "local_domain", "give all ranks the same"});
    EXPECT_NE(errors[0].message.find("has local_domain rack"), std::string::npos) << errors[0].message;
    EXPECT_NE(errors[1].message.find("has local_domain host"), std::string::npos) << errors[1].message;
  }
}

TEST(NoSwitch, ForTwoHosts) {
  expect_all_say(refusals("passing", "aab", [](Config& config) { config.controller = ""; }),
                 ErrorCode::invalid_argument,
                 {"strategy is 'passing' and there are 2 hosts, but controller is empty",
                  "PASSING_CONTROLLER", "ring_hierarchical"});
}

// Two ranks have no lane, and would not have noticed.
TEST(NoSwitch, AtTheAddress) {
  for (const char* strategy : {"passing", "auto"}) {
    expect_all_say(refusals(strategy, "aaabcc",
                            [](Config& config) {
                              config.controller = "127.0.0.1:1";
                              config.create_timeout = seconds(1);
                              config.link_rate = 0.1;
                            }),
                   ErrorCode::unreachable, {"127.0.0.1:1"});
  }
}

// One host needs none.
TEST(NoSwitch, ForOneHost) {
  World world("passing", 3, placed("aaa", [](Config& config) { config.controller = ""; }));
  world.run([](Communicator& comm) {
    std::int32_t one = 1;
    ASSERT_TRUE(comm.all_reduce(&one, &one, 1, DataType::int32).wait());
    EXPECT_EQ(one, 3);
  });
}

}  // namespace
}  // namespace passing::test
