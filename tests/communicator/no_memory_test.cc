// Memory runs out in one rank, at every point in turn. Everything still ends: with a result that is right, or
// with an error; and the other ranks end too. docs/errors.md: no_capacity.
//
// An executable of its own, since it replaces operator new. Each attempt is a process of its own, so that one
// that hangs or aborts is only one failure, and many wait at the same time.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <numeric>

#include "communicator/world.h"

namespace {

// Threads that the rank without memory has: the one that calls, and all that it starts.
thread_local bool is_victim = false;
std::atomic<bool> armed = false;
std::atomic<std::uint64_t> asked = 0;
std::atomic<std::uint64_t> refused = 0;
std::uint64_t first_refused = 0;
std::uint64_t most_refused = 0;

void* get(std::size_t bytes, std::size_t alignment) {
  if (is_victim && armed) {
    const std::uint64_t number = asked++;
    if (number >= first_refused && number - first_refused < most_refused) {
      ++refused;
      throw std::bad_alloc();
    }
  }
  void* const got = alignment == 0
                        ? std::malloc(bytes)
                        : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (got == nullptr) throw std::bad_alloc();
  return got;
}

struct Start {
  void* (*body)(void*);
  void* argument;
  bool is_victim;
};

}  // namespace

void* operator new(std::size_t bytes) { return get(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return get(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }

// A thread belongs to the rank that starts it.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  auto* const start = static_cast<Start*>(std::malloc(sizeof(Start)));
  *start = {body, argument, is_victim};
  const auto begin = [](void* given) {
    const Start what = *static_cast<Start*>(given);
    std::free(given);
    is_victim = what.is_victim;
    return what.body(what.argument);
  };
  return create(thread, attributes, begin, start);
}

namespace passing::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint32_t kRanks = 3;
constexpr milliseconds kTimeout(2000);

struct Attempt {
  const char* strategy = "";
  const char* carrier = "tcp";
  bool creates = false;  // memory runs out while the group comes about; else in its operations and its end
  std::uint32_t victim = 0;
  std::uint64_t first = 0;  // the allocation that is the first to fail,
  std::uint64_t most = 0;   // and how many do

  bool needs_switch() const {
    return std::string(strategy) == "in_network" || std::string(strategy) == "passing";
  }
  std::string describe() const {
    return std::string(strategy) + " over " + carrier + (creates ? ", creating" : "") + ", rank " +
           std::to_string(victim) + ", allocation " + std::to_string(first) + ", " + std::to_string(most) +
           " times";
  }
};

// As Table, but who cannot come says so.
class Meeting {
 public:
  Exchange exchange(std::uint32_t rank) {
    return [this, rank](const std::string& blob) -> Expected<std::vector<std::string>> {
      std::unique_lock lock(mutex_);
      blobs_[rank] = blob;
      ++given_;
      changed_.notify_all();
      changed_.wait_for(lock, std::chrono::seconds(10), [this] { return over_ || given_ == kRanks; });
      if (given_ < kRanks) return tl::unexpected(Error{ErrorCode::deadline, "someone is absent", {}});
      return blobs_;
    };
  }
  void give_up() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> blobs_ = std::vector<std::string>(kRanks);
  std::uint32_t given_ = 0;
  bool over_ = false;
};

// What became of one rank.
struct Outcome {
  std::optional<ErrorCode> code;
  bool thrown = false;
  bool wrong = false;
  steady_clock::duration longest{};

  bool good() const { return !code && !thrown && !wrong; }
};

// One rank's life. Its buffers outlive its communicator, whatever happens.
class Life {
 public:
  explicit Life(std::uint32_t rank) : rank_(rank), sums_(200'000), gift_(100'000, static_cast<char>(rank)) {}

  void create(const Config& config) {
    try {
      auto made = Communicator::create(config);
      if (made) {
        comm_.emplace(std::move(*made));
      } else {
        outcome.code = made.error().code;
      }
    } catch (const std::bad_alloc&) {
      outcome.thrown = true;
    }
  }
  void live() {
    try {
      if (comm_ && sum(100, 3) && sum(sums_.size(), 1) && pass(100) && pass(gift_.size()))
        static_cast<void>(ends(comm_->barrier()));
    } catch (const std::bad_alloc&) {
      outcome.thrown = true;
    }
  }
  void end() { comm_.reset(); }

  Outcome outcome;

 private:
  bool ends(const Operation& operation) {
    const auto begin = steady_clock::now();
    const auto ended = operation.wait();
    outcome.longest = std::max(outcome.longest, steady_clock::now() - begin);
    if (!ended) outcome.code = ended.error().code;
    return ended.has_value();
  }
  // Several at once, each of its own part.
  bool sum(std::size_t count, std::size_t times) {
    std::iota(sums_.begin(), sums_.end(), static_cast<float>(rank_));
    std::array<std::optional<Operation>, 3> all;
    for (std::size_t i = 0; i < times; ++i) {
      float* data = sums_.data() + i * count;
      all[i].emplace(comm_->all_reduce(data, data, count, DataType::float32));
    }
    for (std::size_t i = 0; i < times; ++i) {
      if (!ends(*all[i])) return false;
    }
    for (std::size_t i = 0; i < count * times; ++i)
      outcome.wrong = outcome.wrong || sums_[i] != static_cast<float>(kRanks * i + 3);
    return !outcome.wrong;
  }
  // To the right, from the left.
  bool pass(std::size_t bytes) {
    const std::uint32_t left = (rank_ + kRanks - 1) % kRanks;
    const Operation out = comm_->send(gift_.data(), bytes, (rank_ + 1) % kRanks, 5);
    const Operation in = comm_->recv(got_.data(), bytes, left, 5);
    if (!ends(out) || !ends(in)) return false;
    outcome.wrong = std::any_of(got_.begin(), got_.begin() + static_cast<std::ptrdiff_t>(bytes),
                                [left](char each) { return each != static_cast<char>(left); });
    return !outcome.wrong;
  }

  std::uint32_t rank_;
  std::vector<float> sums_;
  std::vector<char> gift_;
  std::vector<char> got_ = std::vector<char>(100'000);
  std::optional<Communicator> comm_;
};

// What is wrong with the outcomes, or nothing.
std::string verdict(const Attempt& attempt, const std::vector<std::unique_ptr<Life>>& lives) {
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    const Outcome& each = lives[r]->outcome;
    const std::string who = "rank " + std::to_string(r);
    if (each.wrong) return who + " has a wrong result";
    if (each.longest > kTimeout + std::chrono::seconds(6)) return who + " has waited too long";
    if (refused == 0 && !each.good()) return who + " failed, although nothing was refused";
    if (r != attempt.victim && each.thrown) return who + " has thrown";
    if (r == attempt.victim && each.code && each.code != ErrorCode::no_capacity)
      return who + " has error " + std::to_string(static_cast<int>(*each.code));
  }
  return "";
}

// In a process of its own. Its status: 0, all was as it must be; 2, and nothing was refused.
[[noreturn]] void run(const Attempt& attempt) {
  alarm(40);
  first_refused = attempt.first;
  most_refused = attempt.most;
  Meeting meeting;
  // It has memory: its threads are nobody's.
  std::optional<LocalSwitch> own_switch;
  if (attempt.needs_switch()) own_switch.emplace();
  std::vector<std::unique_ptr<Life>> lives;
  std::vector<Config> configs(kRanks);
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    lives.push_back(std::make_unique<Life>(r));
    configs[r].rank = r;
    configs[r].size = kRanks;
    configs[r].strategy = attempt.strategy;
    configs[r].carrier = attempt.carrier;
    configs[r].host = r < 2 ? "a" : "b";
    configs[r].exchange = meeting.exchange(r);
    configs[r].quiet = true;
    configs[r].shared_bytes = 8 << 20;
    configs[r].timeout = configs[r].create_timeout = kTimeout;
    if (!own_switch) continue;
    configs[r].controller = own_switch->controller();
    configs[r].token = "a token for tests";
    configs[r].job = "no-memory";
  }
  const auto as_rank = [&](std::uint32_t r, auto what) {
    is_victim = r == attempt.victim;
    what(*lives[r]);
  };
  if (attempt.creates) armed = true;
  parallel(kRanks, [&](std::uint32_t r) {
    as_rank(r, [&](Life& life) { life.create(configs[r]); });
    if (!lives[r]->outcome.good()) meeting.give_up();
  });
  armed = true;
  parallel(kRanks, [&](std::uint32_t r) {
    as_rank(r, [](Life& life) {
      life.live();
      life.end();
    });
  });
  armed = false;
  const std::string wrong = verdict(attempt, lives);
  if (!wrong.empty()) std::fprintf(stderr, "%s: %s\n", attempt.describe().c_str(), wrong.c_str());
  _exit(!wrong.empty() ? 1 : refused == 0 ? 2 : 0);
}

class NoMemory : public testing::Test {
 protected:
  // Runs them, some at a time, and says how many there were in which something was refused.
  static std::size_t try_all(const std::vector<Attempt>& attempts) {
    constexpr std::size_t kAtOnce = 12;
    std::vector<std::pair<pid_t, const Attempt*>> running;
    std::size_t reached = 0;
    const auto reap = [&] {
      int status = 0;
      const pid_t ended = waitpid(running.front().first, &status, 0);
      EXPECT_EQ(ended, running.front().first);
      const bool good = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
      EXPECT_TRUE(good) << running.front().second->describe() << ": status " << status;
      if (good && WEXITSTATUS(status) == 0) ++reached;
      running.erase(running.begin());
    };
    for (const Attempt& each : attempts) {
      if (running.size() == kAtOnce) reap();
      const pid_t child = fork();
      if (child == 0) run(each);
      running.emplace_back(child, &each);
    }
    while (!running.empty()) reap();
    return reached;
  }
  // Allocations `step` apart, up to `last`. Those that have failed again: PASSING_NO_MEMORY="RANK FIRST LAST
  // TIMES".
  static void sweep(const char* strategy, bool creates, std::uint64_t last, std::uint64_t step,
                    const char* carrier = "tcp") {
    // Once, at the k-th; or from there on, until the end itself has had to do without.
    constexpr std::uint64_t kTimes[] = {1, 3, 20, 300};
    std::vector<Attempt> attempts;
    for (std::uint64_t k = 0; k < last; k += step)
      attempts.push_back({strategy, carrier, creates, static_cast<std::uint32_t>(attempts.size() % kRanks), k,
                          kTimes[attempts.size() / kRanks % std::size(kTimes)]});
    if (const char* given = std::getenv("PASSING_NO_MEMORY")) {
      Attempt each{.strategy = strategy, .carrier = carrier, .creates = creates};
      ASSERT_EQ(std::sscanf(given, "%u %lu %lu %lu", &each.victim, &each.first, &last, &each.most), 4);
      attempts.clear();
      for (; each.first <= last; ++each.first) attempts.push_back(each);
    }
    EXPECT_GT(try_all(attempts), attempts.size() / 2);
  }
};

TEST_F(NoMemory, ForARing) { sweep("ring", false, 600, 7); }
TEST_F(NoMemory, ForSharedMemory) { sweep("ring_hierarchical", false, 400, 5); }
TEST_F(NoMemory, ForARingInMemory) { sweep("ring", false, 400, 7, "memory"); }
// Their end speaks to the controller.
TEST_F(NoMemory, ForTheSwitch) { sweep("in_network", false, 400, 9); }
TEST_F(NoMemory, ForTheSwitchAndSharedMemory) { sweep("passing", false, 400, 9); }
TEST_F(NoMemory, ToCreateARing) { sweep("ring", true, 500, 11); }
TEST_F(NoMemory, ToCreateSharedMemory) { sweep("ring_hierarchical", true, 500, 11); }

}  // namespace
}  // namespace passing::test
