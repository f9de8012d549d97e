// Ranks that meet, as threads.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "net/rendezvous.h"

namespace passing::net {

using Gifts = std::vector<std::string>;
using Outcome = Expected<Gifts>;

// Any bytes, line ends and zeros among them.
inline std::string random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 source(seed);
  std::string bytes(size, 0);
  for (char& c : bytes) c = static_cast<char>(source());
  return bytes;
}

inline Gifts some_blobs(std::uint32_t size, std::uint32_t seed = 0) {
  Gifts blobs;
  for (std::uint32_t rank = 0; rank < size; ++rank) blobs.push_back(random_bytes(10 + rank, seed + rank));
  return blobs;
}

// All ranks at once, each in a thread.
inline std::vector<Outcome> meet(const Gifts& blobs, const std::function<Exchange(std::uint32_t)>& exchange) {
  std::vector<Outcome> outcomes(blobs.size());
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < blobs.size(); ++rank) {
    ranks.emplace_back([&, rank] { outcomes[rank] = exchange(rank)(blobs[rank]); });
  }
  for (auto& rank : ranks) rank.join();
  return outcomes;
}

inline void expect_met(const std::vector<Outcome>& outcomes, const Gifts& blobs) {
  for (std::uint32_t rank = 0; rank < outcomes.size(); ++rank) {
    ASSERT_TRUE(outcomes[rank]) << outcomes[rank].error().message;
    EXPECT_TRUE(*outcomes[rank] == blobs) << "rank " << rank << " has other blobs";
  }
}

inline void sleep_ms(int time) { std::this_thread::sleep_for(std::chrono::milliseconds(time)); }

}  // namespace passing::net
