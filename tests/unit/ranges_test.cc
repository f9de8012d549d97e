// docs/protocol.md section 3: no slot belongs to two jobs.
#include "dataplane/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "dataplane/jobs.h"

namespace passing::dataplane {
namespace {

using Source = std::mt19937_64;

std::uint32_t below(Source& source, std::uint32_t end) { return static_cast<std::uint32_t>(source() % end); }

struct Range {
  std::uint32_t first;
  std::uint32_t count;
};

// The plain model: a flag per slot.
struct Model {
  std::vector<bool> used;

  std::optional<std::uint32_t> first_fit(std::uint32_t count) const {
    if (count == 0) return 0;
    for (std::uint32_t first = 0, row = 0; first < used.size(); ++first) {
      row = used[first] ? 0 : row + 1;
      if (row == count) return first + 1 - count;
    }
    return std::nullopt;
  }
  std::uint32_t longest() const {
    std::uint32_t most = 0;
    for (std::uint32_t count = 1; count <= used.size() && first_fit(count); ++count) most = count;
    return most;
  }
  void mark(const Range& range, bool as) {
    for (std::uint32_t i = range.first; i < range.first + range.count; ++i) {
      ASSERT_NE(used[i], as);
      used[i] = as;
    }
  }
};

void rehearse_ranges(std::uint64_t seed) {
  Source source(seed);
  Model model{std::vector<bool>(below(source, 40))};
  const auto slots = static_cast<std::uint32_t>(model.used.size());
  SlotRanges ranges(slots);
  std::vector<Range> taken;
  for (int step = 0; step < 200; ++step) {
    if (taken.empty() || below(source, 5) < 3) {
      const std::uint32_t count = below(source, 3) == 0 ? 0 : below(source, slots + 3);
      const auto expected = model.first_fit(count);
      ASSERT_EQ(ranges.take(count), expected) << count << " slots at step " << step;
      if (!expected) continue;
      taken.push_back({*expected, count});
      model.mark(taken.back(), true);
    } else {
      const std::uint32_t which = below(source, static_cast<std::uint32_t>(taken.size()));
      ranges.give_back(taken[which].first, taken[which].count);
      model.mark(taken[which], false);
      taken.erase(taken.begin() + which);
    }
    ASSERT_EQ(ranges.free(), std::count(model.used.begin(), model.used.end(), false)) << "step " << step;
    ASSERT_EQ(ranges.longest(), model.longest()) << "step " << step;
  }
}

TEST(Ranges, Section3AreThoseOfAPlainModel) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    rehearse_ranges(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Ranges, Section3WhatIsGivenBackTwiceIsABug) {
  SlotRanges ranges(8);
  ASSERT_EQ(ranges.take(4), 0U);
  ASSERT_EQ(ranges.take(2), 4U);
  ranges.give_back(0, 4);
  EXPECT_DEATH(ranges.give_back(0, 4), "");
  EXPECT_DEATH(ranges.give_back(2, 4), "");
  EXPECT_DEATH(ranges.give_back(6, 1), "");
  EXPECT_DEATH(ranges.give_back(8, 1), "");
}

// The threads of a switch, each with a table of its own.
struct Threads {
  std::vector<JobTable> tables;

  Threads(std::uint32_t count, std::uint32_t slots) {
    for (std::uint32_t t = 0; t < count; ++t)
      tables.emplace_back(Capabilities{.elements = 4, .slots = slots, .lane_step = count, .lane_first = t});
  }
  // On all of them, or on none.
  bool install(std::uint32_t id, std::uint8_t lanes, std::uint32_t slots) {
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const bool fits = tables[t]
                            .install({.job = id,
                                      .epoch = 1,
                                      .key = 1,
                                      .members = 1,
                                      .lanes = lanes,
                                      .slots = slots,
                                      .first_sequence = 0,
                                      .addresses = std::vector<Address>(lanes)})
                            .has_value();
      if (fits) continue;
      for (std::size_t back = 0; back < t; ++back) tables[back].depart(id, 1, 0);
      return false;
    }
    return true;
  }
  void depart(std::uint32_t id) {
    for (JobTable& table : tables) table.depart(id, 1, 0);
  }
  // How many jobs have each slot of a thread.
  static std::vector<int> owners(const JobTable& table, std::uint32_t slots,
                                 const std::vector<std::uint32_t>& ids) {
    std::vector<int> count(slots);
    for (const std::uint32_t id : ids) {
      const Job* job = table.find(id);
      for (std::uint32_t i = 0; i < job->slot_count; ++i) ++count.at(job->first_slot + i);
    }
    return count;
  }
};

// Job A, the two lanes of Z, which are jobs of one lane each, then C and D: D had C's slots on thread 1.
TEST(Ranges, Section3AJobWithoutSlotsOnAThreadDoesNotMoveTheNextOne) {
  Threads threads(2, 1024);
  ASSERT_TRUE(threads.install(1, 2, 128));
  ASSERT_TRUE(threads.install(2, 1, 256));
  ASSERT_TRUE(threads.install(3, 1, 256));
  ASSERT_TRUE(threads.install(4, 2, 128));
  ASSERT_TRUE(threads.install(5, 2, 128));
  for (const JobTable& table : threads.tables) {
    for (const int owners : Threads::owners(table, 1024, {1, 2, 3, 4, 5})) EXPECT_LE(owners, 1);
  }
}

void rehearse_jobs(std::uint64_t seed) {
  Source source(seed);
  constexpr std::uint32_t kSlots = 64;
  Threads threads(1 + below(source, 4), kSlots);
  std::vector<std::uint32_t> ids;
  for (std::uint32_t step = 1; step <= 100; ++step) {
    if (ids.empty() || below(source, 5) < 3) {
      const auto lanes = static_cast<std::uint8_t>(1 + below(source, 6));
      if (threads.install(step, lanes, 1U << below(source, 5))) ids.push_back(step);
    } else {
      const std::uint32_t which = below(source, static_cast<std::uint32_t>(ids.size()));
      threads.depart(ids[which]);
      ids.erase(ids.begin() + which);
    }
    for (const JobTable& table : threads.tables) {
      ASSERT_EQ(table.size(), ids.size());
      const auto owners = Threads::owners(table, kSlots, ids);
      for (const int count : owners) ASSERT_LE(count, 1) << "step " << step;
      ASSERT_EQ(table.free_slots(), std::count(owners.begin(), owners.end(), 0)) << "step " << step;
    }
  }
}

TEST(Ranges, Section3JobsThatComeAndGoNeverShareASlot) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    rehearse_jobs(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Ranges, Section31AJobThatFitsNowhereInARowIsToldSo) {
  Threads threads(1, 12);
  ASSERT_TRUE(threads.install(1, 1, 4));
  ASSERT_TRUE(threads.install(2, 1, 4));
  ASSERT_TRUE(threads.install(3, 1, 4));
  threads.depart(1);
  threads.depart(3);
  const auto refused = threads.tables[0].install({.job = 4,
                                                  .epoch = 1,
                                                  .key = 1,
                                                  .members = 1,
                                                  .lanes = 1,
                                                  .slots = 8,
                                                  .first_sequence = 0,
                                                  .addresses = std::vector<Address>(1)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_capacity);
  EXPECT_EQ(refused.error().message, "the job asks for 8 slots in a row: 8 are free, at most 4 in a row");
}

}  // namespace
}  // namespace passing::dataplane
