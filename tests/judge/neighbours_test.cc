// Who talks to whom: docs/faults.md section 1.
#include "judge/neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <set>

namespace passing::judge {
namespace {

// How many hops news needs from one rank to all that are alive; none if it does not reach them all.
std::optional<std::uint32_t> hops(std::uint32_t from, std::uint32_t size,
                                  const std::set<std::uint32_t>& dead) {
  std::vector<std::uint32_t> at(size, UINT32_MAX);
  std::deque<std::uint32_t> next{from};
  at[from] = 0;
  std::uint32_t reached = 1;
  std::uint32_t most = 0;
  while (!next.empty()) {
    const std::uint32_t rank = next.front();
    next.pop_front();
    for (const std::uint32_t each : neighbours(rank, size)) {
      if (at[each] != UINT32_MAX || dead.contains(each)) continue;
      at[each] = at[rank] + 1;
      most = std::max(most, at[each]);
      ++reached;
      next.push_back(each);
    }
  }
  if (reached + dead.size() != size) return std::nullopt;
  return most;
}

std::uint32_t log2_up(std::uint32_t size) { return static_cast<std::uint32_t>(std::bit_width(size - 1)); }

TEST(Neighbours, AreFewAndMutual) {
  for (std::uint32_t size = 1; size < 300; ++size) {
    for (std::uint32_t r = 0; r < size; ++r) {
      const auto all = neighbours(r, size);
      ASSERT_LE(all.size(), 2 * log2_up(std::max(size, 2U)));
      for (const std::uint32_t each : all) {
        ASSERT_NE(each, r);
        const auto theirs = neighbours(each, size);
        ASSERT_TRUE(std::ranges::binary_search(theirs, r)) << r << " and " << each << " of " << size;
      }
    }
  }
}

TEST(Neighbours, NewsReachesAThousandRanksSoon) {
  constexpr std::uint32_t kSize = 1024;
  EXPECT_LE(neighbours(0, kSize).size(), 2 * log2_up(kSize) + 4);
  EXPECT_LE(hops(0, kSize, {}).value(), 2 * log2_up(kSize));
}

// A rank that has lost log2(P) of its neighbours still hears, and so does everyone when a whole host is gone.
TEST(Neighbours, AlsoWithoutSomeOfThem) {
  constexpr std::uint32_t kSize = 1024;
  const auto around = neighbours(77, kSize);
  std::set<std::uint32_t> dead;
  for (std::uint32_t i = 0; i < log2_up(kSize); ++i) dead.insert(around[i]);
  EXPECT_LE(hops(500, kSize, dead).value(), 2 * log2_up(kSize));
  EXPECT_LE(hops(77, kSize, dead).value(), 2 * log2_up(kSize));
  std::set<std::uint32_t> host;
  for (std::uint32_t r = 64; r < 128; ++r) host.insert(r);
  EXPECT_LE(hops(0, kSize, host).value(), 2 * log2_up(kSize));
}

}  // namespace
}  // namespace passing::judge
