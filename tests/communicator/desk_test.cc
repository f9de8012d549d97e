// The desks of parameter servers: who enrols there, who may not, and strangers.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "base/bytes.h"
#include "communicator/servers.h"
#include "net/mesh.h"
#include "net/proof.h"
#include "strategy/context.h"

namespace passing::test {
namespace {

/// What a server logs.
class Log {
 public:
  std::function<void(const std::string&)> taker() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
  }
  /// Once the server is gone.
  const std::vector<std::string>& lines() const { return lines_; }
  bool has(const std::string& words) const {
    return std::ranges::any_of(lines_,
                               [&](const auto& each) { return each.find(words) != std::string::npos; });
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

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

// Those that say nothing make room long before their time is over, and ranks enrol between them.
TEST(Desk, ACrowdMakesRoom) {
  Log log;
  auto server = serve({.log = log.taker()});
  std::list<Visitor> crowd;
  for (int i = 0; i < 300; ++i) crowd.emplace_back(server);
  const auto began = steady_clock::now();
  EXPECT_EQ(crowd.front().hear_all(), "");
  EXPECT_LT(steady_clock::now() - began, seconds(5));
  std::thread more([&] {
    for (int i = 0; i < 2000; ++i) const Visitor other(server);
  });
  Job job("job", at(server), 8);
  more.join();
  expect_sums(job);
  server.reset();
  EXPECT_TRUE(log.has("at the desk: the first of those that had to make room for others"));
  EXPECT_TRUE(log.has("at the desk, in all: "));
}

// A rank that had to make room enrols again.
TEST(Desk, ARankThatIsTurnedAwayComesAgain) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  net::SocketAddress there = *net::parse_address("127.0.0.1:0");
  ASSERT_EQ(::bind(listener, there.get(), there.length), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  getsockname(listener, there.get(), &there.length);
  std::optional<Expected<net::Enrolled>> enrolled;
  std::thread rank(
      [&] { enrolled.emplace(net::Enrolled::enrol({net::to_string(there)}, rank_of_two(0), 20 * kSecond)); });
  ::close(::accept(listener, nullptr, nullptr));
  const int second = ::accept(listener, nullptr, nullptr);
  const auto answer = [&](const net::Answer& words) {
    const std::string frame = net::framed(words.encode());
    EXPECT_EQ(::send(second, frame.data(), frame.size(), MSG_NOSIGNAL), std::ssize(frame));
  };
  answer({.type = net::Answer::Type::accepted, .address = "127.0.0.1:5", .index = 0, .of = 1});
  answer({.type = net::Answer::Type::ready});
  rank.join();
  EXPECT_TRUE(*enrolled) << enrolled->error().message;
  ::close(second);
  ::close(listener);
}

TEST(Desk, StrangersAreCounted) {
  Log log;
  auto server = serve({.token = "secret", .log = log.taker()});
  for (int i = 0; i < 2; ++i) {
    const Visitor garbage(server);
    garbage.say("GET / HTTP/1.1\r\n\r\n");
    EXPECT_EQ(garbage.hear_all(), "");
  }
  const Visitor old(server);
  old.say(net::framed(Writer().put(std::string("99.1.0")).take()));
  static_cast<void>(old.hear_all());
  const Visitor guess(server);
  guess.say(net::framed(rank_of_two(0).encode()));
  static_cast<void>(guess.hear_all());
  server.reset();
  EXPECT_TRUE(
      log.has("at the desk, in all: 2 spoke another protocol; 1 had another version; 1 had another token"));
}

// What it says of itself could move the cursor of a terminal, or fill the disk.
TEST(Desk, LogsNoBytesOfStrangers) {
  Log log;
  auto server = serve({.token = "secret", .log = log.taker()});
  net::Enrolment rank = rank_of_two(0);
  rank.job = "job\033[2J\nerror: nothing";
  rank.name = std::string(3000, 'n') + "\r";
  const Visitor visitor(server);
  visitor.say(net::framed(rank.encode()));
  EXPECT_EQ(visitor.hear().type, net::Answer::Type::refused);
  server.reset();
  EXPECT_TRUE(log.has("job 'job\\x1b[2J\\x0aerror: nothing', " + std::string(128, 'n') + "...: refused"));
  for (const std::string& line : log.lines()) {
    EXPECT_LT(line.size(), 500U);
    EXPECT_TRUE(std::ranges::all_of(line, [](char each) { return each >= ' ' && each < 127; })) << line;
  }
}

#ifndef __SANITIZE_ADDRESS__  // the undefined-behaviour sanitizer needs descriptors for its own checks
TEST(Desk, WithoutADescriptorTheOldestMakesRoom) {
  const auto server = serve();
  const Visitor silent(server);
  const int late = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::this_thread::sleep_for(milliseconds(100));  // until the first is accepted
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const auto used = static_cast<rlim_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                                      std::filesystem::directory_iterator()));
  const rlimit tight{used + 32, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<int> hoard;
  for (int each = dup(0); each >= 0; each = dup(0)) hoard.push_back(each);
  EXPECT_EQ(::connect(late, server->address().get(), server->address().length), 0);
  const auto began = steady_clock::now();
  EXPECT_EQ(silent.hear_all(), "");
  EXPECT_LT(steady_clock::now() - began, seconds(5));
  for (const int each : hoard) ::close(each);
  setrlimit(RLIMIT_NOFILE, &before);
  ::close(late);
}
#endif

// In a process of its own, in which no mesh has been.
TEST(Desk, RaisesTheLimitOfDescriptors) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 256);
        setrlimit(RLIMIT_NOFILE, &limit);
        const auto server = serve();
        getrlimit(RLIMIT_NOFILE, &limit);
        std::_Exit(server && limit.rlim_cur == limit.rlim_max ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace passing::test
