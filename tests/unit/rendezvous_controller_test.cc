// How ranks find each other through a controller; ranks are threads here.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "controller/server.h"
#include "dataplane/userspace/userspace.h"
#include "net/controller_client.h"
#include "net/hex.h"
#include "unit/meeting.h"

namespace passing::net {
namespace {

// A switch with its controller, in this process.
struct Switch {
  explicit Switch(Duration lease = 10 * kSecond, std::uint16_t port = 0)
      : dataplane(std::move(*dataplane::UserspaceDataplane::start(
            {.listen = *parse_address("127.0.0.1:0"), .capabilities = {.elements = 352, .slots = 512}}))),
        registry(*dataplane, {.lease = lease}),
        server(std::move(
            *controller::Server::start(registry, *dataplane, {.host = "127.0.0.1", .port = port}))) {}

  std::string address() const { return "127.0.0.1:" + std::to_string(server->port()); }
  std::vector<controller::JobView> jobs() { return registry.view(0); }

  std::unique_ptr<dataplane::UserspaceDataplane> dataplane;
  controller::Registry registry;
  std::unique_ptr<controller::Server> server;
};

constexpr const char* kToken = "a token for tests";

Exchange through(const std::string& controller, std::uint32_t size, std::uint32_t rank,
                 Duration timeout = 30 * kSecond, const std::string& token = kToken) {
  return controller_exchange({.job = "job", .rank = rank, .size = size, .timeout = timeout}, controller,
                             token);
}

TEST(ControllerRendezvous, AllSizesUnderOneName) {
  Switch there;
  for (const std::uint32_t size : {1U, 2U, 5U, 64U, 3U, 100U}) {
    const Gifts blobs = some_blobs(size);
    expect_met(meet(blobs, [&](std::uint32_t rank) { return through(there.address(), size, rank); }), blobs);
    EXPECT_TRUE(there.jobs().empty());
  }
}

TEST(ControllerRendezvous, EmptyAndLargeBlobs) {
  Switch there;
  const Gifts blobs = {"", random_bytes(1U << 20, 1), random_bytes(1U << 20, 2)};
  expect_met(meet(blobs, [&](std::uint32_t rank) { return through(there.address(), 3, rank); }), blobs);
}

TEST(ControllerRendezvous, ABlobThatDoesNotFitIsRefusedAtOnce) {
  Switch there;
  const auto begin = std::chrono::steady_clock::now();
  const auto outcome = through(there.address(), 2, 0)(std::string(3U << 20, 'x'));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message, "the body is too large: at most 4 MB");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_TRUE(there.jobs().empty());
}

TEST(ControllerRendezvous, TakesNoSlots) {
  Switch there;
  const ControllerClient client(there.address());
  ASSERT_TRUE(client.join("meet", kToken, 1, 0, 0, 0, {}, false));
  EXPECT_EQ(there.registry.totals().free_slots, there.registry.totals().slots);
  // All of them are there for others.
  EXPECT_TRUE(client.join("all", kToken, 2, 0, 1, 512, {"127.0.0.1:5000"}, false));
}

TEST(ControllerRendezvous, ManyMeetingsOneAfterAnother) {
  Switch there;
  constexpr std::uint32_t kSize = 5;
  constexpr int kMeetings = 20;
  std::atomic<int> right = 0;
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&, rank] {
      for (std::uint32_t i = 0; i < kMeetings; ++i) {
        const Gifts blobs = some_blobs(kSize, 100 * i);
        const auto outcome = through(there.address(), kSize, rank)(blobs[rank]);
        if (outcome && *outcome == blobs) ++right;
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(right, kMeetings * static_cast<int>(kSize));
}

TEST(ControllerRendezvous, WaitsForASwitchThatStartsLate) {
  std::uint16_t port = 0;
  {
    Switch probe;
    port = probe.server->port();
  }
  const Gifts blobs = some_blobs(2);
  std::unique_ptr<Switch> there;
  std::thread later([&] {
    sleep_ms(500);
    there = std::make_unique<Switch>(10 * kSecond, port);
  });
  const auto outcomes =
      meet(blobs, [&](std::uint32_t rank) { return through("127.0.0.1:" + std::to_string(port), 2, rank); });
  later.join();
  expect_met(outcomes, blobs);
}

TEST(ControllerRendezvous, SurvivesASwitchThatRestarts) {
  auto there = std::make_unique<Switch>();
  const std::string address = there->address();
  const std::uint16_t port = there->server->port();
  const Gifts blobs = some_blobs(2);
  std::thread restart([&] {
    sleep_ms(300);
    there.reset();
    sleep_ms(100);
    there = std::make_unique<Switch>(10 * kSecond, port);
  });
  const auto outcomes = meet(blobs, [&](std::uint32_t rank) {
    sleep_ms(static_cast<int>(1000 * rank));
    return through(address, 2, rank);
  });
  restart.join();
  expect_met(outcomes, blobs);
}

TEST(ControllerRendezvous, TheLeaseLastsWhileRanksAreLate) {
  Switch there(kSecond);
  const Gifts blobs = some_blobs(2);
  const auto outcomes = meet(blobs, [&](std::uint32_t rank) {
    sleep_ms(static_cast<int>(3000 * rank));
    return through(there.address(), 2, rank);
  });
  expect_met(outcomes, blobs);
}

TEST(ControllerRendezvous, ADeadMembersBlobIsNotTaken) {
  Switch there(2 * kSecond);
  // Killed while the job formed: its rank and its blob stay until its lease ends.
  const ControllerClient client(there.address());
  const auto dead = client.join("job.rendezvous", kToken, 2, 1, 0, 0, {}, false);
  ASSERT_TRUE(dead);
  ASSERT_TRUE(client.give("job.rendezvous", dead->key, 1, "blob", to_hex("of the dead")));
  const Gifts blobs = some_blobs(2);
  expect_met(meet(blobs, [&](std::uint32_t rank) { return through(there.address(), 2, rank); }), blobs);
}

TEST(ControllerRendezvous, WaitsUntilTheNameIsFree) {
  Switch there;
  // The last member of a run of another size, which has not left yet.
  const ControllerClient client(there.address());
  const auto last = client.join("job.rendezvous", kToken, 1, 0, 0, 0, {}, false);
  ASSERT_TRUE(last);
  std::thread leaver([&] {
    sleep_ms(500);
    EXPECT_TRUE(client.leave("job.rendezvous", last->key, 0));
  });
  const Gifts blobs = some_blobs(3);
  expect_met(meet(blobs, [&](std::uint32_t rank) { return through(there.address(), 3, rank); }), blobs);
  leaver.join();
}

TEST(ControllerRendezvous, RanksThatNeverComeAreNamed) {
  Switch there;
  const auto outcome = through(there.address(), 4, 1, kSecond / 2)("x");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::deadline);
  EXPECT_EQ(outcome.error().members, (std::vector<std::uint16_t>{0, 2, 3}));
  EXPECT_EQ(outcome.error().message, "job 'job' is not complete after 0.5 s; missing at controller " +
                                         there.address() +
                                         ": rank 0, 2, 3; start all ranks with the same job and size");
  EXPECT_TRUE(there.jobs().empty());
}

TEST(ControllerRendezvous, RefusalsAreToldInTheEnd) {
  Switch there;
  const ControllerClient client(there.address());
  ASSERT_TRUE(client.join("job.rendezvous", kToken, 2, 0, 0, 0, {}, false));
  const auto taken = through(there.address(), 2, 0, kSecond / 2)("x");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message.find("rank 0 of job 'job.rendezvous' is taken"), 0U)
      << taken.error().message;
  EXPECT_NE(taken.error().message.find("(tried for 0.5 s)"), std::string::npos);
  const auto stranger = through(there.address(), 2, 1, kSecond / 2, "another token")("x");
  ASSERT_FALSE(stranger);
  EXPECT_EQ(stranger.error().message.find("the token does not fit"), 0U) << stranger.error().message;
}

TEST(ControllerRendezvous, AControllerThatNeverAnswersIsNamed) {
  const auto outcome = through("127.0.0.1:1", 2, 0, kSecond / 2)("x");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::unreachable);
  EXPECT_EQ(outcome.error().message.find("the controller at 127.0.0.1:1 does not answer: "), 0U);
}

TEST(ControllerRendezvous, ANameThatIsTooLong) {
  const auto outcome =
      controller_exchange({.job = std::string(118, 'x'), .rank = 0, .size = 2}, "127.0.0.1:1", kToken)("");
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message,
            "job name '" + std::string(118, 'x') + "' has 118 characters: use at most 117");
}

// Jobs without lanes, as the registry sees them.
TEST(RendezvousJob, WhoLeavesWhileItFormsTakesTheBlobsAlong) {
  Switch there;
  auto& registry = there.registry;
  const controller::JoinRequest first{
      .job = "j", .token = kToken, .size = 2, .rank = 0, .lanes = 0, .slots = 0};
  controller::JoinRequest second = first;
  second.rank = 1;
  const auto key = registry.join(0, first)->key;
  ASSERT_TRUE(registry.join(0, second).has_value());
  // All have joined: from here on a blob stays.
  ASSERT_TRUE(registry.give("j", key, 0, "t", "zero"));
  ASSERT_TRUE(registry.leave("j", key, 0));
  ASSERT_TRUE(registry.give("j", key, 1, "t", "one"));
  EXPECT_EQ(registry.take("j", key, "t")->all, (Gifts{"zero", "one"}));
  ASSERT_TRUE(registry.leave("j", key, 1));
  EXPECT_FALSE(registry.take("j", key, "t"));

  const auto again = registry.join(0, first)->key;
  controller::JoinRequest third = first;
  third.job = "k";
  const auto other = registry.join(0, third)->key;
  third.rank = 1;
  third.size = 3;
  EXPECT_FALSE(registry.join(0, third));
  ASSERT_TRUE(registry.give("k", other, 0, "t", "early"));
  ASSERT_TRUE(registry.leave("k", other, 0));
  EXPECT_FALSE(registry.take("k", other, "t"));  // nobody is left, and the job is forgotten
  EXPECT_TRUE(registry.leave("j", again, 0));

  // Three ranks: one leaves while the others stay.
  controller::JoinRequest trio{.job = "l", .token = kToken, .size = 3, .rank = 0, .lanes = 0, .slots = 0};
  const auto common = registry.join(0, trio)->key;
  ASSERT_TRUE(registry.give("l", common, 0, "t", "early"));
  trio.rank = 1;
  ASSERT_TRUE(registry.join(0, trio));
  ASSERT_TRUE(registry.leave("l", common, 0));
  EXPECT_EQ(registry.take("l", common, "t")->missing, (std::vector<std::uint16_t>{0, 1, 2}));
  trio.rank = 0;
  ASSERT_TRUE(registry.join(0, trio));
  EXPECT_TRUE(registry.give("l", common, 0, "t", "another"));
}

TEST(RendezvousJob, LeasesEndItToo) {
  Switch there;
  auto& registry = there.registry;
  controller::JoinRequest join{.job = "j", .token = kToken, .size = 2, .rank = 0, .lanes = 0, .slots = 0};
  // Far ahead of the server's own clock, so that only this test's housekeeping counts.
  const Time start = Time{1} << 60;
  const auto key = registry.join(start, join)->key;
  join.rank = 1;
  ASSERT_TRUE(registry.join(start, join));
  EXPECT_EQ(registry.look(start + 9 * kSecond, "j", key, 0)->state, controller::MemberView::State::running);
  registry.housekeeping(start + 11 * kSecond);
  const auto view = registry.look(start + 11 * kSecond, "j", key, 0);
  EXPECT_EQ(view->state, controller::MemberView::State::ended);
  EXPECT_EQ(view->reason, "rank 1 has not been heard of for 11.0 s");
  EXPECT_EQ(view->addresses, (Gifts{"", ""}));
  const auto rows = there.jobs();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].state, "ending: rank 1 has not been heard of for 11.0 s");
  EXPECT_EQ(rows[0].joined, std::vector<std::uint16_t>{0});
  EXPECT_TRUE(rows[0].lag.empty());
  ASSERT_TRUE(registry.leave("j", key, 0));
  EXPECT_TRUE(there.jobs().empty());
}

TEST(RendezvousJob, HasNoSlotsAndNoAddresses) {
  Switch there;
  controller::JoinRequest join{.job = "j", .token = kToken, .size = 2, .rank = 0, .lanes = 0, .slots = 256};
  EXPECT_EQ(there.registry.join(0, join).error().message,
            "256 slots and 0 addresses for 0 lanes: give none of either");
  join.slots = 0;
  join.addresses = {*parse_address("127.0.0.1:5000")};
  EXPECT_EQ(there.registry.join(0, join).error().message,
            "0 slots and 1 addresses for 0 lanes: give none of either");
  join.addresses.clear();
  join.size = 1025;
  EXPECT_EQ(there.registry.join(0, join).error().message, "size is 1025: must be 1 to 1024");
}

}  // namespace
}  // namespace passing::net
