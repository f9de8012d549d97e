// docs/mesh.md: the first that fits, and in the same time whether 10 or 10,000 wait.
#include "net/matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <random>

#include "strategy/context.h"

namespace passing::net {
namespace {

namespace tags = strategy::tags;

// What strategies and communicators use, and some that nobody does: more than there are tables for.
constexpr std::uint64_t kMasks[] = {tags::kAllMask,
                                    tags::kAllMask & ~tags::kHashMask,
                                    ~tags::kSourceMask,
                                    tags::kClassMask,
                                    0,
                                    0xFF,
                                    0xFF00,
                                    0xF0F0,
                                    0x0FF0};

std::uint64_t some_tag(std::mt19937& source) {
  const auto few = [&](std::uint32_t most) { return static_cast<std::uint32_t>(source()) % most; };
  return few(2) == 0 ? tags::collective(few(4), few(2), few(2), few(3)) : tags::point(few(4) << 18, few(3));
}

TransferPtr receive(std::uint64_t tag, std::uint64_t mask) {
  auto transfer = std::make_shared<Transfer>();
  transfer->tag = tag;
  transfer->mask = mask;
  return transfer;
}

// Lists, looked through from the beginning.
TEST(Matching, PairsAsAPlainModelDoes) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 source(seed);
    Posted posted;
    std::list<TransferPtr> plain_posted;
    Arrivals<int> arrived;
    std::list<std::pair<std::uint64_t, int>> plain_arrived;
    for (int step = 0; step < 4000; ++step) {
      const std::uint64_t tag = some_tag(source);
      const std::uint64_t mask = kMasks[source() % (source() % 8 == 0 ? std::size(kMasks) : 3)];
      switch (source() % 8) {
        case 0:
        case 1:
        case 2: {  // a receive
          const auto found = std::find_if(plain_arrived.begin(), plain_arrived.end(),
                                          [&](const auto& each) { return ((each.first ^ tag) & mask) == 0; });
          const auto got = arrived.take(tag, mask);
          ASSERT_EQ(got.has_value(), found != plain_arrived.end()) << seed << ", " << step;
          if (got) {
            ASSERT_EQ(*got, found->second) << seed << ", " << step;
            plain_arrived.erase(found);
          } else {
            plain_posted.push_back(receive(tag, mask));
            posted.add(plain_posted.back());
          }
          break;
        }
        case 3: {  // one is cancelled
          if (plain_posted.empty()) break;
          const auto which = std::next(plain_posted.begin(), source() % plain_posted.size());
          ASSERT_TRUE(posted.remove(*which));
          ASSERT_FALSE(posted.remove(*which));
          plain_posted.erase(which);
          break;
        }
        case 4: {  // only an odd one is good enough
          const auto odd = [](int each) { return each % 2 == 1; };
          const auto found = std::find_if(plain_arrived.begin(), plain_arrived.end(), [&](const auto& each) {
            return odd(each.second) && ((each.first ^ tag) & mask) == 0;
          });
          const auto got = arrived.take(tag, mask, odd);
          ASSERT_EQ(got.has_value(), found != plain_arrived.end());
          if (!got) break;
          ASSERT_EQ(*got, found->second);
          plain_arrived.erase(found);
          break;
        }
        default: {  // a message
          const auto found = std::find_if(plain_posted.begin(), plain_posted.end(), [&](const auto& each) {
            return ((each->tag ^ tag) & each->mask) == 0;
          });
          const TransferPtr got = posted.take(tag);
          ASSERT_EQ(got, found == plain_posted.end() ? nullptr : *found) << seed << ", " << step;
          if (got) {
            plain_posted.erase(found);
          } else {
            plain_arrived.emplace_back(tag, step);
            arrived.add(tag, step);
          }
        }
      }
      if (source() % 500 == 0) {
        arrived.erase_if([](int each) { return each % 3 == 0; });
        std::erase_if(plain_arrived, [](const auto& each) { return each.second % 3 == 0; });
      }
      ASSERT_EQ(arrived.size(), plain_arrived.size());
    }
  }
}

// Nanoseconds for one more to be put there and found, with so many others: the best of several.
template <class Step>
double time_of(const Step& step) {
  double best = 1e9;
  for (int run = 0; run < 20; ++run) {
    constexpr int kSteps = 1000;
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kSteps; ++i) step(static_cast<std::uint64_t>(i));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    best = std::min(best, took.count() / kSteps);
  }
  return best;
}

// Of every kind, all different: operations, sources, the user's tags.
std::uint64_t tag_of(std::uint64_t i) {
  const auto n = static_cast<std::uint32_t>(i);
  switch (i % 3) {
    case 0: return tags::collective(i, n, n * 7, 5);
    case 1: return tags::collective(3, 1, 9, n);
    default: return tags::point(n, 4);
  }
}

double time_to_post(std::uint64_t pending) {
  Posted posted;
  for (std::uint64_t i = 0; i < pending; ++i) posted.add(receive(tag_of(i), kMasks[i % 3 == 2 ? 0 : 1]));
  return time_of([&](std::uint64_t i) {
    posted.add(receive(tag_of(pending + i), kMasks[i % 3]));
    EXPECT_NE(posted.take(tag_of(pending + i)), nullptr);
  });
}

double time_to_keep(std::uint64_t pending) {
  Arrivals<int> arrived;
  for (std::uint64_t i = 0; i < pending; ++i) arrived.add(tag_of(i), 1);
  for (const std::uint64_t mask : {kMasks[0], kMasks[1], kMasks[2]})
    EXPECT_FALSE(arrived.take(kMasks[3], mask));
  return time_of([&](std::uint64_t i) {
    arrived.add(tag_of(pending + i), 2);
    EXPECT_TRUE(arrived.take(tag_of(pending + i), kMasks[i % 3]));
  });
}

TEST(Matching, CostsTheSameWithTenAndTenThousand) {
  for (const auto time : {time_to_post, time_to_keep}) {
    const double few = time(10);
    const double many = time(10'000);
    EXPECT_LT(many, 3 * few) << few << " ns and " << many << " ns";
    RecordProperty(time == time_to_post ? "posted" : "arrived",
                   std::to_string(few) + " " + std::to_string(many));
  }
}

}  // namespace
}  // namespace passing::net
