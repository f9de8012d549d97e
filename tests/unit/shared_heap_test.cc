// Buffers without shared memory; with it: tests/communicator/allocate_test.cc.
#include "communicator/shared_heap.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace passing {
namespace {

TEST(SharedHeap, GivesWhatCanBeWritten) {
  SharedHeap heap;
  for (const std::size_t bytes : {0, 1, 127, 128, 129, 1'000'000}) {
    const auto data = heap.allocate(bytes);
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*data) % 128, 0U);
    std::memset(*data, 1, bytes);
    EXPECT_TRUE(heap.free(*data));
  }
}

TEST(SharedHeap, TooMuchIsASentence) {
  SharedHeap heap;
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 200, SIZE_MAX / 2}) {
    const auto refused = heap.allocate(bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::no_capacity);
    EXPECT_EQ(refused.error().message,
              "cannot allocate " + std::to_string(bytes) + " bytes: give it more memory");
  }
}

TEST(SharedHeap, FreesOnlyWhatIsInUse) {
  SharedHeap heap;
  SharedHeap other;
  const auto data = heap.allocate(1000);
  ASSERT_TRUE(data);
  int foreign = 0;
  for (void* each : {static_cast<void*>(&foreign), static_cast<void*>(static_cast<char*>(*data) + 128)})
    EXPECT_EQ(heap.free(each).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(other.free(*data).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(heap.free(*data));
  EXPECT_EQ(heap.free(*data).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(heap.free(nullptr));
}

// What is not freed goes with the heap: a sanitizer would tell.
TEST(SharedHeap, EndsWithItsBuffers) {
  SharedHeap heap;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(heap.allocate(1000));
}

TEST(SharedHeap, OfManyThreads) {
  SharedHeap heap;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&heap, t] {
      std::mt19937 random(t);
      std::set<void*> held;
      for (int i = 0; i < 2000; ++i) {
        if (held.size() < 8 && random() % 2 == 0) {
          const auto data = heap.allocate(1 + random() % 5000);
          ASSERT_TRUE(data);
          ASSERT_TRUE(held.insert(*data).second);
        } else if (!held.empty()) {
          ASSERT_TRUE(heap.free(*held.begin()));
          held.erase(held.begin());
        }
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

}  // namespace
}  // namespace passing
