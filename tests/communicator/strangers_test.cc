// docs/mesh.md: strangers at the doors of a rank disturb no collective, and are counted by what they did.
// What they can do to a mesh alone: tests/unit/mesh_strangers_test.cc.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/hash.h"
#include "communicator/engine.h"
#include "communicator/messages.h"
#include "communicator/world.h"
#include "net/member.h"
#include "net/mesh_connection.h"

namespace passing::test {
namespace {

constexpr std::uint32_t kRanks = 3;

template <class T>
std::string text(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// The first words of a dialler that has not listened: everything is right but the proof.
std::string hello(std::uint64_t group, std::uint32_t version = net::FrameHeader::kVersion) {
  const net::FrameHeader header{.type = net::FrameType::hello,
                                .tag = std::uint64_t{version} << 32,
                                .id = group,
                                .bytes = sizeof(net::Nonce) + sizeof(net::Proof)};
  return text(header) + std::string(header.bytes, 'x');
}

std::uint64_t all_of(const net::Refused& counts) {
  return counts.garbage + counts.other_version + counts.other_group + counts.unproven + counts.late +
         counts.too_many + counts.left;
}

// Engines, since a communicator shows its users nothing of strangers.
class Strangers : public testing::Test {
 protected:
  void SetUp() override {
    Table table(kRanks);
    engines.resize(kRanks);
    parallel(kRanks, [&](std::uint32_t rank) {
      Config config;
      config.rank = rank;
      config.size = kRanks;
      config.strategy = "ring";
      config.timeout = config.create_timeout = std::chrono::seconds(60);
      config.exchange = [&, rank](const std::string& blob) {
        auto all = table.exchange(rank)(blob);
        if (all && rank == 0) blobs = *all;
        return all;
      };
      auto made = Engine::create(config);
      ASSERT_TRUE(made) << made.error().message;
      engines[rank] = std::move(*made);
    });
    ASSERT_FALSE(HasFatalFailure());
    group = kHashBegin;
    for (const std::string& each : blobs) group = hash_of(each, group);
  }
  void TearDown() override {
    parallel(kRanks, [&](std::uint32_t rank) { engines[rank].reset(); });
    all_go();
  }

  // All ranks reduce until `over`: the last element says that rank 0 has seen that. How often they did.
  std::uint64_t reduce(std::uint32_t rank, const std::atomic<bool>& over) {
    constexpr std::uint64_t kMost = 1'000'000;
    std::vector<std::int32_t> data(500);
    for (std::uint64_t times = 1; times < kMost; ++times) {
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::int32_t>(i * times + rank);
      data.back() = rank == 0 && over ? 1 : 0;
      if (auto ended = sum(*engines[rank], data); !ended) {
        ADD_FAILURE() << "rank " << rank << ", operation " << times << ": " << ended.error().message;
        return times;
      }
      for (std::size_t i = 0; i + 1 < data.size(); ++i) {
        EXPECT_EQ(data[i], static_cast<std::int32_t>(kRanks * i * times + 3)) << "operation " << times;
        if (HasFailure()) return times;
      }
      if (data.back() != 0) return times;
    }
    return kMost;
  }
  static Expected<void> sum(Engine& engine, std::vector<std::int32_t>& data) {
    const auto state = std::make_shared<Operation::State>();
    state->mailbox = engine.mailbox();
    state->begun = net::monotonic_now();
    state->timeout = 60 * kSecond;
    state->call.signature = {.kind = strategy::Kind::all_reduce,
                             .type = DataType::int32,
                             .reduction = Reduction::sum,
                             .count = data.size()};
    state->call.input = state->call.output = data.data();
    engine.mailbox()->submit(state);
    return Operation(state).wait();
  }

  // To the door for data, or for control.
  void come(std::uint32_t rank, bool control, const std::string& words) {
    const auto introduction = Introduction::decode(blobs[rank]);
    ASSERT_TRUE(introduction);
    const auto there = net::parse_numeric_address(control ? introduction->control : introduction->address);
    ASSERT_TRUE(there);
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(descriptor, 0);
    guests.push_back(descriptor);
    // Closed without a trace, so that thousands do not use up the ports.
    const linger at_once{1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ASSERT_EQ(::connect(descriptor, there->get(), there->length), 0);
    // It may have been sent away by now.
    static_cast<void>(!::send(descriptor, words.data(), words.size(), MSG_NOSIGNAL));
  }
  void all_go() {
    for (const int each : guests) ::close(each);
    guests.clear();
  }
  template <class Condition>
  bool eventually(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end && !HasFailure()) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<std::string> blobs;
  std::uint64_t group = 0;
  std::vector<int> guests;
};

TEST_F(Strangers, DisturbNoCollective) {
  std::atomic<bool> over = false;
  std::array<std::uint64_t, kRanks> times{};
  std::thread ranks([&] { parallel(kRanks, [&](std::uint32_t r) { times[r] = reduce(r, over); }); });
  const auto watch = [&](auto seen) {
    return eventually([&] {
      const auto all = engines[1]->strangers();
      return seen(all.data) && seen(all.control);
    });
  };

  // A few of every kind, to both doors: fewer than would drive each other away.
  constexpr std::uint64_t kFew = 8;
  for (std::uint64_t i = 0; i < kFew; ++i) {
    for (const bool control : {false, true}) {
      come(1, control, "GET / HTTP/1.1\r\nHost: somewhere\r\nAccept: */*\r\n\r\n");
      come(1, control, hello(group + 1 + i));
      come(1, control, hello(group, net::FrameHeader::kVersion + 1));
      come(1, control, hello(group));
      come(1, control, "");
      come(1, control, hello(group).substr(0, 50));
    }
  }
  EXPECT_TRUE(watch([](const net::Refused& counts) {
    return counts.garbage == kFew && counts.other_group == kFew && counts.other_version == kFew &&
           counts.unproven == kFew && all_of(counts) == 4 * kFew;
  }));
  all_go();
  EXPECT_TRUE(watch([](const net::Refused& counts) { return counts.left == 2 * kFew; }));

  // Two that stay at each door of another rank, until their time is over.
  std::vector<int> patient;
  for (const bool control : {false, true}) {
    come(2, control, "");
    come(2, control, hello(group).substr(0, 50));
  }
  std::swap(patient, guests);

  // A crowd, of all kinds. Who comes last drives out who came first, so the sum counts.
  constexpr std::uint64_t kCrowd = 10'000;
  constexpr std::uint64_t kBurst = 500;
  const std::string words[] = {"", std::string(40, 'y'), hello(group).substr(0, 31), hello(group + 7),
                               hello(group, 1)};
  for (std::uint64_t came = 0; came < kCrowd && !HasFailure(); came += kBurst) {
    for (std::uint64_t i = 0; i < kBurst; ++i) come(1, i % 2 == 1, words[i / 2 % std::size(words)]);
    all_go();
    EXPECT_TRUE(
        watch([&](const net::Refused& counts) { return all_of(counts) == 6 * kFew + (came + kBurst) / 2; }));
  }
  EXPECT_TRUE(eventually([&] {
    const auto all = engines[2]->strangers();
    return all.data.late == 2 && all.control.late == 2;
  }));

  over = true;
  ranks.join();
  std::swap(patient, guests);
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(times[r], times[0]);
    EXPECT_FALSE(engines[r]->mailbox()->closed());
  }
  EXPECT_GT(times[0], 100U);
  EXPECT_EQ(all_of(engines[0]->strangers().data) + all_of(engines[0]->strangers().control), 0U);
}

}  // namespace
}  // namespace passing::test
