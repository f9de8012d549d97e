// Ranks of one group over any carrier: the tests are the same for all of them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "net/carriers.h"

namespace passing::net {

using Status = Transfer::Status;
constexpr std::uint64_t kAll = ~std::uint64_t{0};

/// One thread moves all ranks, except where a test has threads of its own.
class Carriers : public testing::TestWithParam<const char*> {
 protected:
  void make(std::uint32_t size) {
    create(size);
    for (auto& each : ranks) ASSERT_TRUE(each->introduce(addresses, 7, key_of("a token of the tests")));
  }
  // Not introduced to each other.
  void create(std::uint32_t size) {
    for (std::uint32_t r = 0; r < size; ++r) {
      auto made = make_carrier(GetParam(), r, size, *parse_address("127.0.0.1:0"));
      ASSERT_TRUE(made) << made.error().message;
      ranks.push_back(std::move(*made));
      addresses.push_back(ranks.back()->address());
    }
  }
  void progress() {
    for (auto& each : ranks) {
      if (each) each->progress();
    }
  }
  template <class Condition>
  bool eventually(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      progress();
      if (condition()) return true;
    }
    return false;
  }
  // What is on its way has come.
  void calm() {
    for (int quiet = 0; quiet < 3;) {
      progress();
      quiet = idle(5) ? quiet + 1 : 0;
    }
  }
  // Nothing wakes anyone.
  bool idle(int milliseconds) {
    std::vector<pollfd> sources;
    bool nothing_came = true;
    for (auto& each : ranks) {
      if (!each) continue;
      nothing_came = each->arm() && nothing_came;
      sources.push_back({each->descriptor(), POLLIN, 0});
    }
    return nothing_came && ::poll(sources.data(), sources.size(), milliseconds) == 0;
  }
  static bool all_ended(const std::vector<TransferPtr>& all) {
    return std::all_of(all.begin(), all.end(), [](const TransferPtr& each) { return each->ended(); });
  }

  std::vector<std::unique_ptr<Carrier>> ranks;
  std::vector<std::string> addresses;
};

/// Different for each seed and place.
inline std::vector<char> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<char> made(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (char& each : made) {
    state = state * 6364136223846793005 + 1442695040888963407;
    each = static_cast<char>(state >> 56);
  }
  return made;
}

inline std::string kind_name(const testing::TestParamInfo<const char*>& each) { return each.param; }

}  // namespace passing::net
