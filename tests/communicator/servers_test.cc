// Parameter servers and the ranks that use them: bad input, several jobs, strangers. What needs processes of
// their own is in tests/integration/servers_test.py.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "communicator/world.h"
#include "net/desk.h"
#include "net/mesh.h"
#include "net/proof.h"
#include "passing/passing.h"
#include "server/server.h"
#include "strategy/context.h"

namespace passing::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ServerPtr = std::unique_ptr<server::ParameterServer>;

ServerPtr serve(server::ParameterServer::Options options = {}) {
  if (options.listen.length == 0) options.listen = *net::parse_address("127.0.0.1:0");
  auto server = server::ParameterServer::start(std::move(options));
  EXPECT_TRUE(server) << server.error().message;
  return std::move(*server);
}

std::string at(const ServerPtr& server) { return net::to_string(server->address()); }

// A port where nobody listens, at this moment.
std::string free_address() {
  const auto server = serve();
  return at(server);
}

/// The ranks of one job as threads; or why each of them could not be made.
class Job {
 public:
  Job(const std::string& name, const std::string& servers, std::uint32_t size,
      const std::function<void(Config&)>& change = {})
      : ranks_(size), errors_(size) {
    Table table(size);
    const auto begin = steady_clock::now();
    parallel(size, [&](std::uint32_t rank) {
      Config config;
      config.rank = rank;
      config.size = size;
      config.strategy = "ps";
      config.job = name;
      config.host = "host-" + std::to_string(rank / 2);
      config.exchange = table.exchange(rank);
      config.servers = servers;
      config.timeout = config.create_timeout = seconds(20);
      if (change) change(config);
      auto made = Communicator::create(config);
      if (made) {
        ranks_[rank].emplace(std::move(*made));
      } else {
        errors_[rank] = made.error();
      }
    });
    time_ = steady_clock::now() - begin;
  }
  ~Job() {
    parallel(size(), [this](std::uint32_t rank) { ranks_[rank].reset(); });
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  steady_clock::duration time() const { return time_; }
  const std::string& message(std::uint32_t rank) const { return errors_[rank].message; }

  /// Everyone has the same trouble: one sentence, with all of `words`.
  void expect_refused(ErrorCode code, const std::vector<std::string>& words) {
    for (std::uint32_t r = 0; r < size(); ++r) {
      EXPECT_FALSE(ranks_[r]) << "rank " << r;
      EXPECT_EQ(errors_[r].code, code) << errors_[r].message;
      EXPECT_EQ(errors_[r].message.find('\n'), std::string::npos) << errors_[r].message;
      for (const std::string& each : words)
        EXPECT_NE(errors_[r].message.find(each), std::string::npos) << each << ": " << errors_[r].message;
    }
  }

  /// Runs `body` for all ranks at the same time.
  void run(const std::function<void(Communicator&)>& body) {
    for (std::uint32_t r = 0; r < size(); ++r) ASSERT_TRUE(ranks_[r]) << errors_[r].message;
    parallel(size(), [&](std::uint32_t rank) { body(*ranks_[rank]); });
  }

 private:
  std::vector<std::optional<Communicator>> ranks_;
  std::vector<Error> errors_;
  steady_clock::duration time_{};
};

// Several chunks for each server; each sum is right only for this many ranks and this salt.
void expect_sum(Communicator& comm, int salt = 0) {
  std::vector<std::int32_t> data(100'001);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::int32_t>(i) + static_cast<std::int32_t>(comm.rank()) + salt;
  const auto ended = comm.all_reduce(data.data(), data.data(), data.size(), DataType::int32).wait();
  ASSERT_TRUE(ended) << ended.error().message;
  const auto ranks = static_cast<std::int32_t>(comm.size());
  for (std::size_t i = 0; i < data.size(); ++i)
    ASSERT_EQ(data[i], ranks * (static_cast<std::int32_t>(i) + salt) + ranks * (ranks - 1) / 2) << i;
}

void expect_sums(Job& job) {
  job.run([](Communicator& comm) { expect_sum(comm); });
}

void with_short_patience(Config& config) { config.create_timeout = milliseconds(300); }

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

/// Someone at the desk who is not a communicator.
class Visitor {
 public:
  explicit Visitor(const ServerPtr& server) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(descriptor_, server->address().get(), server->address().length), 0);
  }
  ~Visitor() { leave(); }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  void say(const std::string& bytes) const {
    EXPECT_EQ(::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// What comes until the other end closes.
  std::string hear_all() const {
    std::string all;
    char data[4096];
    ssize_t got = 0;
    while ((got = ::recv(descriptor_, data, sizeof data, 0)) > 0)
      all.append(data, static_cast<std::size_t>(got));
    EXPECT_TRUE(got == 0 || errno == ECONNRESET) << "nobody closes: " << std::strerror(errno);
    return all;
  }
  /// The next answer.
  net::Answer hear() const {
    std::uint32_t length = 0;
    EXPECT_EQ(::recv(descriptor_, &length, 4, MSG_WAITALL), 4);
    std::string message(length, '\0');
    EXPECT_EQ(::recv(descriptor_, message.data(), length, MSG_WAITALL), static_cast<ssize_t>(length));
    return net::Answer::decode(message).value_or(net::Answer{.text = "cannot be read"});
  }
  void leave() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
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

}  // namespace
}  // namespace passing::test
