// The desks of parameter servers: who enrols there, who may not, and strangers.
#include <functional>
#include <mutex>
#include <thread>

#include "base/bytes.h"
#include "communicator/servers.h"
#include "net/mesh.h"
#include "net/proof.h"
#include "strategy/context.h"

namespace passing::test {
namespace {

TEST(Desk, StrangersDisturbNobody) {
  const auto server = serve();
  const Visitor silent(server);
  const Visitor slow(server);
  slow.say(std::string("\x10\0\0", 3));
  const Visitor half(server);
  half.say(net::framed(std::string(100, 'x')).substr(0, 50));
  const std::vector<std::string> garbage = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string(100'000, '\xFF'),
      net::framed(""),
      net::framed("x"),
      net::framed(std::string(net::kLongestDeskMessage, '\0')),
      net::framed(net::Answer{.type = net::Answer::Type::ready}.encode()),
  };
  Job job("job", at(server), 3);
  for (const std::string& each : garbage) {
    const Visitor stranger(server);
    stranger.say(each);
    EXPECT_EQ(stranger.hear_all(), "");
    expect_sums(job);
  }
  Job second("job", at(server), 2);
  expect_sums(second);
}

net::Enrolment rank_of_two(std::uint32_t rank) {
  return {.version = passing_version(),
          .job = "job",
          .token = "",
          .name = "rank " + std::to_string(rank) + " at 127.0.0.1:5",
          .address = "127.0.0.1:5",
          .group = 77,
          .rank = rank,
          .size = 2};
}

TEST(Desk, EnrolmentsThatCannotBe) {
  const auto server = serve({.token = "secret"});
  const auto refused = [&](const std::function<void(net::Enrolment&)>& change, const std::string& sentence) {
    net::Enrolment rank = rank_of_two(0);
    rank.token = "secret";
    change(rank);
    const Visitor visitor(server);
    visitor.say(net::framed(rank.encode()));
    const net::Answer answer = visitor.hear();
    EXPECT_EQ(answer.type, net::Answer::Type::refused);
    EXPECT_NE(answer.text.find(sentence), std::string::npos) << answer.text;
    EXPECT_EQ(visitor.hear_all(), "");
  };
  refused([](auto& rank) { rank.version = "0.0.0"; }, "rank 0 at 127.0.0.1:5 is 0.0.0");
  refused([](auto& rank) { rank.token = "guess"; }, "PASSING_TOKEN");
  refused([](auto& rank) { rank.size = 0; }, "rank 0 of 0");
  refused([](auto& rank) { rank.size = 1; }, "rank 0 of 1");
  refused([](auto& rank) { rank.rank = 2; }, "rank 2 of 2");
  refused([](auto& rank) { rank.size = 70'000; }, "rank 0 of 70000");
  refused([](auto& rank) { rank.size = UINT32_MAX; }, "rank 0 of 4294967295");
  refused([](auto& rank) { rank.address = "nowhere"; }, "'nowhere'");
  Job job("job", at(server), 2, [](Config& config) { config.token = "secret"; });
  expect_sums(job);
}

// A rank of another version may say things in another way: only that its version comes first is for ever.
TEST(Desk, AnotherVersion) {
  const auto server = serve();
  for (const char* rest : {"", "x", "something quite different, and longer than a version"}) {
    const Visitor visitor(server);
    visitor.say(net::framed(Writer().put(std::string("99.1.0")).take() + rest));
    const net::Answer answer = visitor.hear();
    EXPECT_EQ(answer.type, net::Answer::Type::refused);
    EXPECT_EQ(answer.text, std::string("it is version ") + passing_version() + ", the rank is 99.1.0");
    EXPECT_EQ(visitor.hear_all(), "");
  }
  Job job("job", at(server), 2);
  expect_sums(job);
}

TEST(Desk, TheSameRankTwice) {
  const auto server = serve();
  const Visitor first(server);
  first.say(net::framed(rank_of_two(0).encode()));
  EXPECT_EQ(first.hear().type, net::Answer::Type::accepted);
  const Visitor again(server);
  again.say(net::framed(rank_of_two(0).encode()));
  const net::Answer answer = again.hear();
  EXPECT_EQ(answer.type, net::Answer::Type::refused);
  EXPECT_EQ(answer.text, "rank 0 of job 'job' is there already");
  const Visitor other(server);
  other.say(net::framed(rank_of_two(1).encode()));
  EXPECT_EQ(other.hear().type, net::Answer::Type::accepted);
  const std::string content = net::framed(net::Answer{.type = net::Answer::Type::ready}.encode());
  first.say(content);
  other.say(content);
  EXPECT_EQ(other.hear().type, net::Answer::Type::ready);
  EXPECT_EQ(first.hear().type, net::Answer::Type::ready);
}

// A rank enrols and dies: whoever waits for it hears its name at once, and so does whoever comes later.
TEST(Desk, ARankIsNotComing) {
  const auto server = serve();
  net::Enrolment others = rank_of_two(1);
  others.size = 3;
  const auto expect_told = [&](std::uint32_t rank) {
    others.rank = rank;
    const auto begin = steady_clock::now();
    const auto enrolled = net::Enrolled::enrol({at(server)}, others, 20 * kSecond);
    ASSERT_FALSE(enrolled);
    EXPECT_NE(enrolled.error().message.find(at(server)), std::string::npos) << enrolled.error().message;
    EXPECT_NE(enrolled.error().message.find("rank 0 at 127.0.0.1:5 is not coming"), std::string::npos)
        << enrolled.error().message;
    EXPECT_LT(steady_clock::now() - begin, seconds(10));
  };
  Visitor dying(server);
  net::Enrolment own = rank_of_two(0);
  own.size = 3;
  dying.say(net::framed(own.encode()));
  EXPECT_EQ(dying.hear().type, net::Answer::Type::accepted);
  const Visitor waiting(server);
  others.rank = 1;
  waiting.say(net::framed(others.encode()));
  EXPECT_EQ(waiting.hear().type, net::Answer::Type::accepted);
  dying.leave();
  const net::Answer told = waiting.hear();
  EXPECT_EQ(told.type, net::Answer::Type::refused);
  EXPECT_NE(told.text.find("rank 0 at 127.0.0.1:5 is not coming"), std::string::npos) << told.text;
  expect_told(2);
  // Another attempt of the job is another group.
  Job job("job", at(server), 3);
  expect_sums(job);
}

// One that never enrols: those who wait say which, at the end of their patience.
TEST(Desk, ARankThatNeverEnrols) {
  const auto server = serve();
  net::Enrolment own = rank_of_two(0);
  own.size = 4;
  parallel(2, [&](std::uint32_t i) {
    net::Enrolment rank = own;
    rank.rank = 2 * i;
    auto enrolled = net::Enrolled::enrol({at(server)}, rank, 500 * kMillisecond);
    ASSERT_FALSE(enrolled);
    EXPECT_EQ(enrolled.error().code, ErrorCode::deadline) << enrolled.error().message;
    EXPECT_NE(enrolled.error().message.find("server 0 at " + at(server)), std::string::npos)
        << enrolled.error().message;
    EXPECT_NE(enrolled.error().message.find("rank 1, rank 3"), std::string::npos) << enrolled.error().message;
  });
}

// Ranks that have lost their senses: the server goes on with what can be done.
TEST(Desk, CallsThatCannotBeServed) {
  namespace tags = strategy::tags;
  std::mutex mutex;
  std::string log;
  const auto server = serve({.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    log += line + "\n";
  }});
  std::unique_ptr<net::Mesh> meshes[2];
  for (std::uint32_t r = 0; r < 2; ++r)
    meshes[r] = std::move(*net::Mesh::create(r, 3, *net::parse_address("127.0.0.1:0")));
  std::optional<net::Enrolled> enrolled[2];
  parallel(2, [&](std::uint32_t r) {
    net::Enrolment rank = rank_of_two(r);
    rank.address = net::to_string(meshes[r]->socket_address());
    auto made = net::Enrolled::enrol({at(server)}, rank, 20 * kSecond);
    ASSERT_TRUE(made) << made.error().message;
    enrolled[r].emplace(std::move(*made));
    meshes[r]->introduce(
        {meshes[0]->socket_address(), meshes[1]->socket_address(), enrolled[r]->servers().at(0).address}, 77,
        net::key_of(rank.token));
  });
  if (HasFatalFailure()) return;

  strategy::Call call;
  call.signature = {
      .kind = strategy::Kind::all_reduce, .type = DataType::float32, .reduction = Reduction::sum, .count = 3};
  std::vector<std::string> calls = {"", "x", std::string(16'000, '\xFF'), call.encode() + "x"};
  const auto add = [&](const std::function<void(strategy::Signature&)>& change) {
    strategy::Call changed = call;
    change(changed.signature);
    calls.push_back(changed.encode());
    ++call.number;
  };
  add([](auto& what) { what.kind = strategy::Kind::broadcast; });
  add([](auto& what) { what.kind = static_cast<strategy::Kind>(200); });
  add([](auto& what) { what.type = static_cast<DataType>(99); });
  add([](auto& what) { what.reduction = static_cast<Reduction>(0); });
  add([](auto& what) { what.reduction = Reduction::bit_xor; });
  add([](auto& what) { what.count = UINT64_MAX; });
  for (const std::string& each : calls) meshes[0]->send_urgent(2, tags::kCall | 0, each);
  // Calls of different ranks have no order, and a later one would make these old.
  const auto limit = steady_clock::now() + seconds(20);
  for (bool served = false; !served;) {
    ASSERT_LT(steady_clock::now(), limit);
    meshes[0]->progress();
    const std::lock_guard lock(mutex);
    served = log.find("all_reduce of 18446744073709551615") != std::string::npos;
  }

  const std::uint32_t hash = call.signature.hash();
  const float given[2][3] = {{1, 2, 3}, {10, 20, 30}};
  float sums[2][3] = {};
  net::TransferPtr coming[2];
  for (std::uint32_t r = 0; r < 2; ++r) {
    meshes[r]->send_urgent(2, tags::kCall | r, call.encode());
    meshes[r]->send(2, tags::collective(call.number, 0, hash, r), given[r], sizeof given[r]);
    coming[r] = meshes[r]->recv(2, tags::collective(call.number, 1, hash, 2), tags::kAllMask, sums[r],
                                sizeof sums[r]);
  }
  while (!coming[0]->ended() || !coming[1]->ended()) {
    ASSERT_LT(steady_clock::now(), limit);
    for (auto& each : meshes) {
      each->flush();
      each->progress();
    }
  }
  for (const auto& sum : sums) EXPECT_EQ(std::vector(sum, sum + 3), (std::vector<float>{11, 22, 33}));
  const std::lock_guard lock(mutex);
  EXPECT_NE(log.find("a call that cannot be served: all_reduce of 18446744073709551615"), std::string::npos)
      << log;
}

}  // namespace
}  // namespace passing::test
