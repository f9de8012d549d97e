// Parameter servers and the ranks that use them: bad input and several jobs. Their desks: desk_test.cc. What
// needs processes of their own is in tests/integration/servers_test.py.
#include "communicator/servers.h"

#include <atomic>
#include <thread>

namespace passing::test {
namespace {

TEST(Servers, NoneAtTheAddress) {
  const std::string nobody = free_address();
  Job job("job", nobody, 3, with_short_patience);
  job.expect_refused(ErrorCode::unreachable,
                     {"no server at " + nobody, "start one there (passing server)", "PASSING_SERVERS"});
  EXPECT_GE(job.time(), milliseconds(300));  // it may be on its way
  EXPECT_LT(job.time(), seconds(10));
}

// The one that is missing is named, wherever it is in the list, and not the one that is there.
TEST(Servers, OneOfTwoIsMissing) {
  const std::string nobody = free_address();
  const auto there = serve({.of = 2});
  for (const std::string& list : {nobody + "," + at(there), at(there) + "," + nobody}) {
    Job job("job", list, 3, with_short_patience);
    job.expect_refused(ErrorCode::unreachable, {"no server at " + nobody});
    for (std::uint32_t r = 0; r < job.size(); ++r)
      EXPECT_EQ(job.message(r).find(at(there)), std::string::npos) << job.message(r);
  }
}

TEST(Servers, StartedAfterTheRanks) {
  const auto first = serve({.index = 0, .of = 2});
  const std::string address = free_address();
  ServerPtr second;
  std::thread starter([&] {
    std::this_thread::sleep_for(milliseconds(200));
    second = serve({.listen = *net::parse_address(address), .index = 1, .of = 2});
  });
  Job job("job", address + "," + at(first), 3);
  starter.join();
  expect_sums(job);
}

TEST(Servers, ListsThatCannotBe) {
  for (const char* list : {"", ",", "127.0.0.1:1,", ",127.0.0.1:1", "127.0.0.1:1,,127.0.0.1:2"}) {
    Job job("job", list, 2);
    job.expect_refused(ErrorCode::invalid_argument,
                       {"servers is '" + std::string(list) + "'", "HOST:PORT", "PASSING_SERVERS"});
  }
  for (const char* item : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", ":9100",
                           "127.0.0.1:9100 ", "[::1:9100"}) {
    Job job("job", item, 2);
    job.expect_refused(ErrorCode::invalid_argument, {"'" + std::string(item) + "'", "PASSING_SERVERS"});
  }
}

TEST(Servers, OrderOfTheListDoesNotMatter) {
  const auto first = serve({.index = 0, .of = 2});
  const auto second = serve({.index = 1, .of = 2});
  Job job("job", "", 3, [&](Config& config) {
    config.servers = config.rank == 1 ? at(first) + "," + at(second) : at(second) + "," + at(first);
  });
  expect_sums(job);
}

TEST(Servers, TwoOwnTheSameRange) {
  const auto one = serve({.index = 0, .of = 2});
  const auto other = serve({.index = 0, .of = 2});
  Job job("job", at(one) + "," + at(other), 3);
  job.expect_refused(ErrorCode::disagreement, {"key range 0 of 2", at(one), at(other), "--index"});
  Job twice("job", at(one) + "," + at(one), 3);
  twice.expect_refused(ErrorCode::invalid_argument, {"servers has '" + at(one) + "' more than once"});
}

TEST(Servers, ARangeHasNone) {
  const auto only = serve({.index = 1, .of = 2});
  Job job("job", at(only), 3);
  job.expect_refused(ErrorCode::disagreement,
                     {"no server for key range 0 of 2", "--index 0 --of 2", "PASSING_SERVERS"});
}

TEST(Servers, CountDifferently) {
  const auto two = serve({.index = 0, .of = 2});
  const auto three = serve({.index = 1, .of = 3});
  Job job("job", at(two) + "," + at(three), 3);
  job.expect_refused(ErrorCode::disagreement,
                     {at(two) + " counts 2 servers", at(three) + " counts 3", "--of"});
}

// None of these attempts keeps a server.
TEST(Servers, AreFreeAfterBadAttempts) {
  const auto one = serve({.index = 0, .of = 2});
  const auto other = serve({.index = 1, .of = 2});
  Job lacking("lacking", at(one), 3);
  lacking.expect_refused(ErrorCode::disagreement, {"key range 1 of 2"});
  Job job("job", at(one) + "," + at(other), 3);
  expect_sums(job);
}

TEST(Servers, TakenByAnotherJob) {
  const auto one = serve({.index = 0, .of = 2});
  const auto other = serve({.index = 1, .of = 2});
  const std::string both = at(one) + "," + at(other);
  {
    Job holder("holder", both, 2);
    expect_sums(holder);
    for (const char* name : {"other", "hold", "holder2"}) {
      Job job(name, both, 3);
      job.expect_refused(ErrorCode::disagreement, {at(one), "taken by job 'holder'", "rank 0 at"});
      EXPECT_LT(job.time(), seconds(10));
    }
    expect_sums(holder);  // it has not noticed
  }
  Job job("other", both, 3);
  expect_sums(job);
}

TEST(Servers, TakenInPart) {
  const auto one = serve({.index = 0, .of = 2});
  const auto other = serve({.index = 1, .of = 2});
  const auto third = serve({.index = 0, .of = 2});
  Job holder("holder", at(one) + "," + at(other), 2);
  Job job("job", at(third) + "," + at(other), 3);
  job.expect_refused(ErrorCode::disagreement, {at(other), "taken by job 'holder'"});
  expect_sums(holder);
}

TEST(Servers, AnotherToken) {
  const auto server = serve({.token = "the right one"});
  for (const char* wrong : {"", "a wrong one", "the right one "}) {
    Job job("job", at(server), 3, [&](Config& config) { config.token = wrong; });
    job.expect_refused(ErrorCode::disagreement, {at(server), "token", "PASSING_TOKEN"});
    for (std::uint32_t r = 0; r < job.size(); ++r)  // it is a secret
      EXPECT_EQ(job.message(r).find("right one"), std::string::npos) << job.message(r);
  }
  Job job("job", at(server), 3, [](Config& config) { config.token = "the right one"; });
  expect_sums(job);
}

// One rank with a wrong token: it is refused, and the others hear who is not coming.
TEST(Servers, AnotherTokenOnOneRank) {
  const auto server = serve({.token = "the right one"});
  Job job("job", at(server), 3, [](Config& config) {
    config.token = config.rank == 1 ? "a wrong one" : "the right one";
    config.create_timeout = milliseconds(700);
  });
  EXPECT_NE(job.message(1).find("PASSING_TOKEN"), std::string::npos) << job.message(1);
  for (const std::uint32_t rank : {0U, 2U}) {
    EXPECT_NE(job.message(rank).find(at(server)), std::string::npos) << job.message(rank);
    EXPECT_NE(job.message(rank).find("rank 1"), std::string::npos) << job.message(rank);
  }
}

TEST(Servers, TwoCommunicatorsOfAJob) {
  const auto one = serve({.index = 0, .of = 2});
  const auto other = serve({.index = 1, .of = 2});
  Job first("job", at(one) + "," + at(other), 3);
  {
    Job second("job", at(one) + "," + at(other), 4);
    std::thread beside([&] {
      for (int i = 0; i < 10; ++i) expect_sums(second);
    });
    for (int i = 0; i < 10; ++i) expect_sums(first);
    beside.join();
  }
  expect_sums(first);
}

class OfServers : public testing::TestWithParam<std::string> {};

TEST_P(OfServers, PartsWhileTheWholeWorks) {
  World world(GetParam(), 5);
  world.run([](Communicator& comm) {
    std::vector<std::vector<float>> data(6, std::vector<float>(50'001, 1));
    std::vector<Operation> pending;
    const auto begin = [&](Communicator& where, std::size_t i) {
      pending.push_back(where.all_reduce(data[i].data(), data[i].data(), data[i].size(), DataType::float32));
    };
    begin(comm, 0);
    begin(comm, 1);
    auto part = comm.split(static_cast<int>(comm.rank() % 2));
    ASSERT_TRUE(part) << part.error().message;
    Communicator& sub = **part;
    begin(sub, 2);
    begin(comm, 3);
    begin(sub, 4);
    begin(comm, 5);
    for (const Operation& each : pending) {
      const auto ended = each.wait();
      ASSERT_TRUE(ended) << ended.error().message;
    }
    for (const std::size_t i : {0, 1, 3, 5}) ASSERT_EQ(data[i], std::vector<float>(data[i].size(), 5));
    for (const std::size_t i : {2, 4})
      ASSERT_EQ(data[i], std::vector<float>(data[i].size(), static_cast<float>(sub.size())));
    // The parts go, one sooner than the other; the whole goes on.
    if (comm.rank() % 2 == 0) part->reset();
    expect_sum(comm);
    part->reset();
    expect_sum(comm, 7);
  });
}

TEST_P(OfServers, OneEndsDuringAJob) {
  World world(GetParam(), 4);
  const std::string addresses = world.servers().addresses();
  const std::string second = addresses.substr(addresses.find(',') + 1);
  std::atomic<int> begun = 0;
  std::thread ender([&] {
    while (begun < 4 * 20) std::this_thread::yield();
    world.servers().drop(1);
  });
  world.run([&](Communicator& comm) {
    std::vector<float> data(100'000, 1);
    Expected<void> ended;
    while (ended) {
      ++begun;
      ended = comm.all_reduce(data.data(), data.data(), data.size(), DataType::float32).wait();
    }
    EXPECT_EQ(ended.error().code, ErrorCode::peer_lost) << ended.error().message;
    EXPECT_NE(ended.error().message.find("server 1 at " + second), std::string::npos)
        << ended.error().message;
    EXPECT_TRUE(ended.error().members.empty());  // a server is no rank
  });
  ender.join();
}

INSTANTIATE_TEST_SUITE_P(Strategies, OfServers, testing::Values("ps", "ps_hierarchical"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace passing::test
