// docs/inhost.md section 1: who shares memory with whom, and what to say when they cannot.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "inhost/company.h"
#include "inhost/forbid.h"
#include "inhost/letter.h"
#include "inhost/operation.h"

namespace passing::test {
namespace {

using inhost::Host;
using inhost::Place;
using Ranks = std::vector<std::uint16_t>;

Place place(const std::string& boot, const std::string& label, std::uint64_t network = 1) {
  Place result;
  result.version = "1";
  result.boot = boot;
  result.label = label;
  result.network = network;
  return result;
}

TEST(Places, SurviveTheRendezvous) {
  const Place here = Place::here("1.2.3", "a", "door", {.shared_bytes = 1 << 20, .slot_bytes = 4096});
  EXPECT_EQ(here.boot.size(), 36U);
  EXPECT_NE(here.network, 0U);
  EXPECT_EQ(here.process, static_cast<std::uint32_t>(getpid()));
  const auto there = Place::decode(here.encode());
  ASSERT_TRUE(there);
  EXPECT_EQ(there->encode(), here.encode());
  EXPECT_FALSE(Place::decode(here.encode().substr(1)));
}

TEST(Places, Neighbours) {
  using List = std::vector<std::uint32_t>;
  // Without labels: who can.
  std::vector<Place> all{place("x", ""), place("y", ""), place("x", ""), place("x", "", 2), place("y", "")};
  EXPECT_EQ(*neighbours(all, 0), (List{0, 2}));
  EXPECT_EQ(*neighbours(all, 4), (List{1, 4}));
  EXPECT_EQ(*neighbours(all, 3), (List{3}));
  // Several hosts on one machine.
  all = {place("x", "a"), place("x", "b"), place("x", "a"), place("y", "")};
  EXPECT_EQ(*neighbours(all, 2), (List{0, 2}));
  EXPECT_EQ(*neighbours(all, 1), (List{1}));
  EXPECT_EQ(*neighbours(all, 3), (List{3}));
  // A label that was forgotten.
  all = {place("x", "a"), place("x", "b"), place("y", ""), place("x", "")};
  for (const std::uint32_t rank : {0, 1, 3}) {
    const auto refused = neighbours(all, rank);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "rank 0 has the host label 'a', rank 3 on the same machine has none; give both a label "
              "(PASSING_HOST), or neither");
    EXPECT_EQ(refused.error().members, (Ranks{0, 3}));
  }
}

TEST(Places, ThatCannotShare) {
  const auto sentence = [](Place other) {
    const std::vector<Place> all{place("x", "a"), std::move(other)};
    const auto first = neighbours(all, 0);
    const auto second = neighbours(all, 1);
    EXPECT_FALSE(first);
    EXPECT_FALSE(second);
    EXPECT_EQ(first.error().message, second.error().message);
    EXPECT_EQ(first.error().members, (Ranks{0, 1}));
    return first.error().message;
  };
  EXPECT_EQ(
      sentence(place("y", "a")),
      "rank 0 and rank 1 are to share memory, but they are on different machines, both labelled 'a'; give "
      "each machine a label of its own, or none");
  EXPECT_NE(sentence(place("x", "a", 2)).find("network namespaces"), std::string::npos);
  Place other = place("x", "a");
  other.version = "2";
  EXPECT_NE(sentence(other).find("they have versions 1 and 2 of the library"), std::string::npos);
  other = place("x", "a");
  other.user = 5;
  EXPECT_NE(sentence(other).find("of the users 0 and 5"), std::string::npos);
  other = place("x", "a");
  other.settings.shared_bytes = 1 << 20;
  EXPECT_NE(sentence(other).find("67108864 and 1048576 bytes"), std::string::npos);
}

TEST(Places, TooLittleMemory) {
  const auto good = inhost::Settings{}.for_ranks(64);
  ASSERT_TRUE(good) << good.error().message;
  const auto small = inhost::Settings{.shared_bytes = 100'000}.for_ranks(16);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().message,
            "shared memory is 100000 bytes for each rank: must be at least 2162688 for 16 ranks in a host");
  EXPECT_FALSE((inhost::Settings{.slot_bytes = 100}.for_ranks(2)));
}

TEST(Memory, IsBounded) {
  in_threads(2, {.shared_bytes = 3 << 20}, [](Host& host) {
    auto all = host.allocate(1 << 20);
    ASSERT_TRUE(all) << all.error().message;
    auto more = host.allocate(4096);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::no_capacity);
    EXPECT_NE(more.error().message.find("raise shared_bytes"), std::string::npos) << more.error().message;
    host.free(*all);
    // In any order, and whole again.
    std::vector<void*> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(*host.allocate(200'000));
    for (const int i : {2, 0, 3, 1}) host.free(parts[static_cast<std::size_t>(i)]);
    all = host.allocate(1 << 20);
    EXPECT_TRUE(all);
    EXPECT_FALSE(host.allocate(~std::size_t{0}));
  });
}

/// What every rank says when `before` is done on one of them.
void all_say(std::size_t ranks, const std::function<void(std::size_t)>& before, ErrorCode code,
             const Ranks& members, const std::string& text, Duration timeout = 20 * kSecond) {
  Processes processes(ranks, [](Host&) -> Expected<void> { return {}; },
                      {.settings = {}, .timeout = timeout, .before = before});
  for (std::size_t r = 0; r < ranks; ++r) {
    const Report report = processes.join(r);
    EXPECT_FALSE(report.good);
    EXPECT_EQ(report.code, static_cast<int>(code)) << report.message;
    EXPECT_EQ(report.members, members) << report.message;
    EXPECT_NE(report.message.find(text), std::string::npos) << "rank " << r << ": " << report.message;
  }
}

TEST(Meeting, WithoutMemfd) {
  all_say(
      4,
      [](std::size_t rank) {
        if (rank == 0) forbid_memfd();
      },
      ErrorCode::no_capacity, {0},
      "rank 0 cannot make shared memory (memfd_create: Operation not permitted); allow the call in the "
      "container");
}

// Ranks cannot wake each other then: they look again and again, and sums are right, late ranks and all.
TEST(Meeting, WithoutFutex) {
  constexpr std::size_t kRanks = 5;
  Processes processes(
      kRanks,
      [](Host& host) -> Expected<void> {
        std::uint32_t word = 0;
        if (syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0) != -1 || errno != EPERM)
          return fail(ErrorCode::cancelled, "the call is not forbidden");
        std::vector<float> data(300'000);
        for (std::size_t i = 0; i < 30; ++i) {
          // Longer than anyone spins: everyone else goes to sleep.
          if (i % kRanks == host.index()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
          const std::size_t count = i % 3 == 0 ? 10 : data.size() - i;
          std::fill_n(data.begin(), count, static_cast<float>(host.index() + i));
          const auto ended = host.all_reduce({.input = data.data(),
                                              .output = data.data(),
                                              .count = count,
                                              .deadline = inhost::now() + 20 * kSecond});
          if (!ended) return ended;
          const auto right = static_cast<float>(kRanks * (kRanks - 1) / 2 + kRanks * i);
          if (std::count(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(count), right) !=
              static_cast<std::ptrdiff_t>(count))
            return fail(ErrorCode::cancelled, "a sum is wrong");
        }
        return {};
      },
      {.settings = {}, .before = [](std::size_t) { forbid_futex(); }});
  for (std::size_t r = 0; r < kRanks; ++r) {
    const Report report = processes.join(r);
    EXPECT_TRUE(report.good) << report.message;
  }
}

// Nor is anyone missed who dies then, or is late.
TEST(Meeting, WithoutFutexFaultsAreFound) {
  for (const int number : {SIGKILL, SIGSTOP}) {
    Processes processes(3,
                        [](Host& host) -> Expected<void> {
                          std::vector<float> data(50'000, 1);
                          for (;;) {
                            const auto ended = host.all_reduce({.input = data.data(),
                                                                .output = data.data(),
                                                                .count = data.size(),
                                                                .deadline = inhost::now() + kSecond / 2});
                            if (!ended) return ended;
                          }
                        },
                        {.settings = {}, .before = [](std::size_t) { forbid_futex(); }});
    processes.await_joined();
    processes.signal(1, number);
    for (const std::size_t r : {0U, 2U}) {
      const Report report = processes.join(r);
      EXPECT_EQ(report.code, static_cast<int>(number == SIGKILL ? ErrorCode::peer_lost : ErrorCode::deadline))
          << report.message;
      EXPECT_EQ(report.members, Ranks{1}) << report.message;
    }
  }
}

void lower(int what, rlim_t to) {
  rlimit limit{to, to};
  setrlimit(static_cast<__rlimit_resource>(what), &limit);
}

TEST(Meeting, WithSmallLimits) {
  all_say(
      3,
      [](std::size_t rank) {
        if (rank == 0) lower(RLIMIT_FSIZE, 1 << 20);
      },
      ErrorCode::no_capacity, {0},
      "rank 0 cannot make 192 MB of shared memory: the limit of file sizes is 1 MB; raise it (ulimit -f)");
  all_say(
      3,
      [](std::size_t rank) {
        if (rank == 2) lower(RLIMIT_NOFILE, 8);
      },
      ErrorCode::no_capacity, {2},
      "rank 2 cannot take the descriptors of the shared memory; raise the limit of descriptors");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  all_say(
      3,
      [](std::size_t rank) {
        if (rank == 1) lower(RLIMIT_AS, 150 << 20);
      },
      ErrorCode::no_capacity, {1},
      "rank 1 cannot map 192 MB of shared memory (Cannot allocate memory); raise the limit of address space");
#endif
}

TEST(Meeting, SomeoneDoesNotCome) {
  Processes processes(3, [](Host&) -> Expected<void> { return {}; },
                      {.settings = {}, .timeout = kSecond / 2, .before = [](std::size_t rank) {
                         if (rank == 2) raise(SIGSTOP);
                       }});
  for (const std::size_t r : {0U, 1U}) {
    const Report report = processes.join(r);
    EXPECT_EQ(report.code, static_cast<int>(ErrorCode::deadline));
    EXPECT_EQ(report.members, Ranks{2});
    EXPECT_EQ(report.message, "the ranks of a host did not meet in time: rank 2 has not come");
  }
}

TEST(Meeting, StrangersAreIgnored) {
  auto leader = inhost::Door::open();
  auto other = inhost::Door::open();
  ASSERT_TRUE(leader && other);
  // Another communicator's, one that talks nonsense, one that says nothing, and another user.
  const inhost::Address address = inhost::address_of(leader->name());
  std::vector<inhost::Descriptor> strangers;
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(strangers.back().get(), address.get(), address.length), 0);
  }
  inhost::Letter hello;
  hello.subject = inhost::Subject::hello;
  hello.index = 1;
  hello.group = 8;
  ASSERT_TRUE(inhost::post(strangers[0].get(), hello, {0}));
  ASSERT_EQ(::send(strangers[1].get(), "hello", 5, 0), 5);
  const pid_t user = fork();
  if (user == 0) {
    const bool dropped = setuid(65534) == 0;
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    hello.group = 7;
    if (dropped && ::connect(socket, address.get(), address.length) == 0) inhost::post(socket, hello, {0});
    _exit(0);
  }
  waitpid(user, nullptr, 0);
  std::thread first([&] {
    auto host = Host::join(*leader, {.ranks = {3, 5}, .rank = 3, .group = 7, .leader = leader->name()});
    ASSERT_TRUE(host) << host.error().message;
  });
  auto host = Host::join(*other, {.ranks = {3, 5}, .rank = 5, .group = 7, .leader = leader->name()});
  EXPECT_TRUE(host) << host.error().message;
  first.join();
}

TEST(Meeting, TheFirstIsGone) {
  auto own = inhost::Door::open();
  ASSERT_TRUE(own);
  auto host = Host::join(*own, {.ranks = {3, 5}, .rank = 5, .leader = "passing-nobody"});
  ASSERT_FALSE(host);
  EXPECT_EQ(host.error().code, ErrorCode::peer_lost);
  EXPECT_EQ(host.error().members, Ranks{3});
  EXPECT_NE(host.error().message.find("rank 3 cannot be reached by rank 5 (Connection refused)"),
            std::string::npos)
      << host.error().message;
}

}  // namespace
}  // namespace passing::test
