#include "inhost/company.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <new>
#include <thread>

namespace passing::test {
namespace {

constexpr std::size_t kMost = 64;

std::vector<std::uint32_t> all_of(std::size_t ranks) {
  std::vector<std::uint32_t> list;
  for (std::uint32_t r = 0; r < ranks; ++r) list.push_back(r);
  return list;
}

void nap() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

}  // namespace

void in_threads(std::size_t ranks, const inhost::Settings& settings, const Body& body) {
  std::vector<inhost::Door> doors;
  for (std::size_t r = 0; r < ranks; ++r) {
    auto door = inhost::Door::open();
    ASSERT_TRUE(door) << door.error().message;
    doors.push_back(std::move(*door));
  }
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      auto host = inhost::Host::join(doors[r], {.ranks = all_of(ranks),
                                                .rank = r,
                                                .group = 7,
                                                .leader = doors[0].name(),
                                                .settings = settings,
                                                .timeout = 20 * kSecond});
      ASSERT_TRUE(host) << host.error().message;
      body(**host);
    });
  }
  for (std::thread& each : threads) each.join();
}

struct Processes::Board {
  struct Entry {
    std::atomic<bool> open{false};
    std::atomic<bool> joined{false};
    std::atomic<bool> ended{false};
    char door[64] = {};
    bool good = false;
    std::uint8_t code = 0;
    std::size_t members = 0;
    std::uint16_t member[kMost] = {};
    char message[1024] = {};
  } rank[kMost];
};

Processes::Processes(std::size_t ranks, const Main& main) : Processes(ranks, main, Options{}) {}

Processes::Processes(std::size_t ranks, const Main& main, const Options& options) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  board_ = new (memory) Board;
  ids_.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    ids_[r] = fork();
    if (ids_[r] == 0) {
      child(r, main, options);
      _exit(0);
    }
  }
}

void Processes::child(std::size_t rank, const Main& main, const Options& options) {
  Board::Entry& own = board_->rank[rank];
  const auto ended = [&](const Expected<void>& how) {
    own.good = how.has_value();
    if (!how) {
      own.code = static_cast<std::uint8_t>(how.error().code);
      own.members = std::min(kMost, how.error().members.size());
      std::copy_n(how.error().members.begin(), own.members, own.member);
      std::strncpy(own.message, how.error().message.c_str(), sizeof own.message - 1);
    }
    own.ended = true;
  };
  auto door = inhost::Door::open();
  if (!door) return ended(tl::unexpected(door.error()));
  std::strncpy(own.door, door->name().c_str(), sizeof own.door - 1);
  own.open = true;
  for (std::size_t r = 0; r < ids_.size(); ++r) {
    while (!board_->rank[r].open) nap();
  }
  options.before(rank);
  auto host = inhost::Host::join(*door, {.ranks = all_of(ids_.size()),
                                         .rank = static_cast<std::uint32_t>(rank),
                                         .group = 7,
                                         .leader = board_->rank[0].door,
                                         .settings = options.settings,
                                         .timeout = options.timeout});
  if (!host) return ended(tl::unexpected(host.error()));
  own.joined = true;
  ended(main(**host));
}

Processes::~Processes() {
  for (std::size_t r = 0; r < ids_.size(); ++r) {
    if (ids_[r] <= 0) continue;
    kill(ids_[r], SIGKILL);
    waitpid(ids_[r], nullptr, 0);
  }
  munmap(board_, sizeof(Board));
}

void Processes::await_joined() const {
  for (std::size_t r = 0; r < ids_.size(); ++r) {
    while (!board_->rank[r].joined && !board_->rank[r].ended) nap();
  }
}

Report Processes::join(std::size_t rank) {
  waitpid(ids_[rank], nullptr, 0);
  ids_[rank] = 0;
  const Board::Entry& entry = board_->rank[rank];
  if (!entry.ended) return {.joined = entry.joined, .message = "was killed"};
  return {.good = entry.good,
          .joined = entry.joined,
          .code = entry.code,
          .members = {entry.member, entry.member + entry.members},
          .message = entry.message};
}

void Processes::signal(std::size_t rank, int number) const { kill(ids_[rank], number); }

}  // namespace passing::test
