// docs/communicator.md, "Rules": all ranks call the same collectives in the same order, from whatever
// threads; send and recv go their own way. Here threads share one communicator.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "communicator/layout.h"
#include "communicator/values.h"
#include "seed.h"

namespace passing::test {
namespace {

struct Step {
  unsigned caller;
  std::size_t count;
  DataType type;
  bool average;
};

constexpr unsigned kCallers = 3;
constexpr unsigned kSteps = 120;
constexpr unsigned kMessages = 60;

/// What the threads of one rank have in common.
class Rank {
 public:
  Rank(Communicator& comm, unsigned seed) : comm_(comm), seed_(seed) {
    std::mt19937 script(seed);  // the same on all ranks
    for (unsigned i = 0; i < kSteps; ++i) {
      const std::size_t count = script() % 3 == 0 ? script() % 120'000 : script() % 3000;
      steps_.push_back({static_cast<unsigned>(script() % kCallers), count,
                        static_cast<DataType>(1 + script() % 4), script() % 2 == 0});
    }
  }

  void run() {
    std::vector<std::thread> threads;
    for (unsigned c = 0; c < kCallers; ++c) threads.emplace_back([this, c] { call(c); });
    threads.emplace_back([this] { exchange_messages(); });
    std::thread memory([this] { use_memory(); });
    std::thread observer([this] { observe(); });
    for (auto& each : threads) each.join();
    over_ = true;
    memory.join();
    observer.join();
  }

 private:
  struct Pending {
    std::unique_ptr<Buffers> buffers;
    std::byte* data;
    Step step;
    Operation op;
  };

  // Its share of the collectives, in the order of all; several under way.
  void call(unsigned who) {
    std::mt19937 own(seed_ + 10 * comm_.rank() + who);
    std::deque<Pending> pending;
    const auto finish = [&] {
      const Pending each = std::move(pending.front());
      pending.pop_front();
      const auto ended = each.op.wait();
      ASSERT_TRUE(ended) << ended.error().message;
      const Step& step = each.step;
      ASSERT_EQ(first_wrong(step.type, each.data, step.count, comm_.size(), step.average), step.count);
    };
    for (unsigned i = 0; i < kSteps; ++i) {
      const Step& step = steps_[i];
      if (step.caller != who) continue;
      auto buffers = std::make_unique<Buffers>(comm_, own() % 2 == 0);
      std::byte* data = buffers->take(step.count * size_of(step.type) + 1);
      if (data != nullptr) fill(step.type, data, step.count, comm_.rank());
      for (unsigned now = turn_; now != i; now = turn_) turn_.wait(now);
      Operation op = comm_.all_reduce(data, data, step.count, step.type,
                                      step.average ? Reduction::average : Reduction::sum);
      turn_ = i + 1;
      turn_.notify_all();
      ASSERT_NE(data, nullptr);
      show(op);
      pending.push_back({std::move(buffers), data, step, std::move(op)});
      while (pending.size() > own() % 3) finish();
    }
    while (!pending.empty()) finish();
  }

  // To the right, from the left, beside all collectives.
  void exchange_messages() {
    std::mt19937 script(seed_ + 1);
    const std::uint32_t right = (comm_.rank() + 1) % comm_.size();
    const std::uint32_t left = (comm_.rank() + comm_.size() - 1) % comm_.size();
    for (unsigned i = 0; i < kMessages; ++i) {
      const std::size_t bytes = script() % 4 == 0 ? script() % 300'000 : script() % 500;
      const auto tag = static_cast<std::uint32_t>(script() % 3);
      const std::vector<char> out(bytes, static_cast<char>(comm_.rank() * 64 + i));
      std::vector<char> in(bytes);
      const Operation coming = comm_.recv(in.data(), bytes, left, tag);
      const Operation going = comm_.send(out.data(), bytes, right, tag);
      show(coming);
      const auto received = coming.wait();
      ASSERT_TRUE(received) << received.error().message;
      ASSERT_EQ(in, std::vector<char>(bytes, static_cast<char>(left * 64 + i))) << i;
      const auto sent = going.wait();
      ASSERT_TRUE(sent) << sent.error().message;
    }
  }

  // What it has been given is its own, whatever others are given.
  void use_memory() {
    std::mt19937 own(seed_ + 100 + comm_.rank());
    while (!over_) {
      const std::size_t bytes = 1 + own() % 100'000;
      const auto data = comm_.allocate(bytes);
      ASSERT_TRUE(data) << data.error().message;
      std::memset(*data, static_cast<int>(own() % 256), bytes);
      const Bytes before(static_cast<std::byte*>(*data), static_cast<std::byte*>(*data) + bytes);
      std::this_thread::yield();
      ASSERT_EQ(std::memcmp(before.data(), *data, bytes), 0);
      comm_.free(*data);
    }
  }

  // Waits for what others wait for too, and asks.
  void observe() {
    const std::string why = comm_.explain(1000, DataType::float32);
    while (!over_) {
      std::optional<Operation> op;
      {
        const std::lock_guard lock(mutex_);
        if (!shown_.empty()) {
          op = shown_.front();
          shown_.pop_front();
        }
      }
      if (op) {
        for (int i = 0; i < 5 && !op->test(); ++i) std::this_thread::yield();
        const auto ended = op->wait();
        ASSERT_TRUE(ended) << ended.error().message;
        ASSERT_TRUE(op->test());
      }
      ASSERT_FALSE(comm_.error());
      ASSERT_EQ(comm_.explain(1000, DataType::float32), why);
      std::this_thread::yield();
    }
  }

  void show(const Operation& op) {
    const std::lock_guard lock(mutex_);
    shown_.push_back(op);
  }

  using Bytes = std::vector<std::byte>;
  Communicator& comm_;
  const unsigned seed_;
  std::vector<Step> steps_;
  std::atomic<unsigned> turn_ = 0;  // the collective that is to be called next
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  std::deque<Operation> shown_;
};

class Threads : public testing::TestWithParam<std::string> {};

TEST_P(Threads, OfOneCommunicator) {
  const unsigned seed = random_seed();
  World world(GetParam(), 4);
  if (HasFatalFailure()) return;
  world.run([seed](Communicator& comm) { Rank(comm, seed).run(); });
}

// One thread waits for a message that comes last, and does the work of the others meanwhile: whatever it is
// doing when they call, nothing may stay undone.
TEST_P(Threads, OneWaitsWhileOthersCall) {
  constexpr int kCalls = 4000;
  World world(GetParam(), 2, [](Config& config) { config.timeout = std::chrono::seconds(5); });
  if (HasFatalFailure()) return;
  world.run([](Communicator& comm) {
    const std::uint32_t other = 1 - comm.rank();
    char last = 0;
    const Operation message = comm.recv(&last, 1, other, 7);
    std::thread waiter([&] {
      const auto ended = message.wait();
      ASSERT_TRUE(ended) << ended.error().message;
    });
    std::atomic<int> turn = 0;
    parallel(2, [&](std::uint32_t who) {
      for (int i = static_cast<int>(who); i < kCalls; i += 2) {
        for (int now = turn; now != i; now = turn) turn.wait(now);
        std::int32_t one = 1;
        const Operation op = comm.all_reduce(&one, &one, 1, DataType::int32);
        turn = i + 1;
        turn.notify_all();
        const auto ended = op.wait();
        ASSERT_TRUE(ended) << i << ": " << ended.error().message;
        ASSERT_EQ(one, 2);
      }
    });
    EXPECT_TRUE(comm.send("x", 1, other, 7).wait());
    waiter.join();
  });
}

// The same with messages that nobody answers.
TEST_P(Threads, OneWaitsWhileAnotherSends) {
  constexpr int kMessagesInAll = 4000;
  World world(GetParam(), 2, [](Config& config) { config.timeout = std::chrono::seconds(5); });
  if (HasFatalFailure()) return;
  world.run([](Communicator& comm) {
    const std::uint32_t other = 1 - comm.rank();
    char last = 0;
    const Operation message = comm.recv(&last, 1, other, 7);
    std::thread waiter([&] {
      const auto ended = message.wait();
      ASSERT_TRUE(ended) << ended.error().message;
    });
    for (int i = 0; i < kMessagesInAll; ++i) {
      int value = i;
      const Operation op = comm.rank() == 0 ? comm.send(&value, sizeof value, other, 1)
                                            : comm.recv(&value, sizeof value, other, 1);
      const auto ended = op.wait();
      EXPECT_TRUE(ended) << i << ": " << ended.error().message;
      EXPECT_EQ(value, i);
      if (HasFailure()) break;
    }
    EXPECT_TRUE(comm.send("x", 1, other, 7).wait());
    waiter.join();
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, Threads, testing::ValuesIn(strategies()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace passing::test
