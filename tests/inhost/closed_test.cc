// docs/inhost.md section 5: after the first fault nothing is written for others, and no sum counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <random>
#include <thread>

#include "inhost/company.h"
#include "inhost/operation.h"
#include "seed.h"

namespace passing::test {
namespace {

using inhost::Host;

constexpr std::size_t kCount = 70'000;

// docs/faults.md 9: who comes back late writes nothing into buffers that others may use anew.
TEST(Closed, NothingIsWritten) {
  std::barrier together(2);
  in_threads(2, {}, [&](Host& host) {
    auto* buffer = static_cast<float*>(*host.allocate(kCount * sizeof(float)));
    std::fill_n(buffer, kCount, 1.0F);
    inhost::Operation operation(host, {.input = buffer, .output = buffer, .count = kCount});
    EXPECT_TRUE(operation.give());
    together.arrive_and_wait();
    if (host.index() == 0) {
      host.cancel();
      std::fill_n(buffer, kCount, 5.0F);
    }
    together.arrive_and_wait();
    for (int i = 0; i < 3 && host.index() == 1; ++i) operation.progress();
    together.arrive_and_wait();
    if (host.index() == 0) {
      EXPECT_EQ(std::count(buffer, buffer + kCount, 5.0F), kCount);
    }
    // What index 1 has not written must not pass for a result.
    for (int i = 0; i < 3; ++i) operation.progress();
    EXPECT_FALSE(operation.done());
  });
}

// What it would sum may be anything by now, and must not go to the switch.
TEST(Closed, NothingIsSummed) {
  std::barrier together(2);
  in_threads(2, {}, [&](Host& host) {
    auto* buffer = static_cast<float*>(*host.allocate(kCount * sizeof(float)));
    std::fill_n(buffer, kCount, 1.0F);
    inhost::Operation operation(host, {.input = buffer, .output = buffer, .count = kCount}, true);
    EXPECT_TRUE(operation.give());
    together.arrive_and_wait();
    const std::size_t ready = operation.ready().count;
    EXPECT_GT(ready, 0U);
    together.arrive_and_wait();
    if (host.index() == 0) {
      host.cancel();
      std::fill_n(buffer, kCount, 5.0F);
    }
    together.arrive_and_wait();
    std::vector<float> sums(ready);
    EXPECT_FALSE(operation.sum(ready / 2, sums.data()));
    EXPECT_FALSE(operation.sum(ready - ready / 2, sums.data()));
    EXPECT_EQ(operation.ready().count, 0U);
    EXPECT_EQ(operation.publish(sums.data(), 0), 0U);
    EXPECT_FALSE(operation.done());
  });
}

/// Elements that tell operations and ranks apart, and whose sums are exact.
float value(std::size_t rank, unsigned operation) {
  return static_cast<float>(rank + 1) * static_cast<float>(operation % 1000 + 1);
}

// Ranks that drive operations one by one, as a communicator does. One gives up somewhere in the middle, and
// at once uses its buffer for something else. Whatever ends on the others is right.
TEST(Closed, WhatEndsIsRight) {
  const unsigned seed = random_seed();
  constexpr std::size_t kRanks = 3;
  for (unsigned round = 0; round < 60; ++round) {
    in_threads(kRanks, {}, [&](Host& host) {
      std::mt19937 random(seed + round);  // the same on all ranks
      const std::size_t count = round % 3 == 0 ? 1000 : 20'000 + random() % 100'000;
      const std::size_t quitter = random() % kRanks;
      const auto after = std::chrono::microseconds(random() % 3000);
      std::vector<float> own(count);
      float* data = random() % 2 == 0 ? own.data() : static_cast<float*>(*host.allocate(4 * count));
      const auto begin = std::chrono::steady_clock::now();
      for (unsigned n = 0; !host.trouble(); ++n) {
        std::fill_n(data, count, value(host.index(), n));
        inhost::Operation operation(host, {.input = data, .output = data, .count = count});
        while (!operation.done() && !host.trouble()) {
          if (host.index() == quitter && std::chrono::steady_clock::now() - begin > after) {
            host.cancel();
            std::fill_n(data, count, -1.0F);
            break;
          }
          if (!operation.progress()) std::this_thread::yield();
        }
        // One step more: who is told of the fault may still have been in the middle of it.
        operation.progress();
        if (!operation.done() || host.index() == quitter) continue;
        float sum = 0;
        for (std::size_t r = 0; r < kRanks; ++r) sum += value(r, n);
        EXPECT_EQ(std::count(data, data + count, sum), static_cast<std::ptrdiff_t>(count))
            << "round " << round << ", operation " << n << ", rank " << host.index();
      }
    });
  }
}

}  // namespace
}  // namespace passing::test
