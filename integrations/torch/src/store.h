// The store of a group, in text.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base.h"

namespace passing::torch_backend {

inline void put(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

/// Also where there is nothing yet: a store in a file may not have its file.
inline bool has(c10d::Store& store, const std::vector<std::string>& keys) {
  try {
    return store.check(keys);
  } catch (const std::exception&) {
    return false;
  }
}

/// Asks again and again. A wait of the store's own would be simpler, but one that runs out leaves a waiter at
/// the server of torch's TCPStore: its late answer is then taken for that of the next request, and from there
/// on no answer on that connection can be trusted.
inline bool comes_within(c10d::Store& store, const std::vector<std::string>& keys,
                         std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  // Many ranks look more rarely: all of them ask one server.
  const std::chrono::milliseconds longest(std::max<std::size_t>(50, keys.size()));
  const auto deadline = Clock::now() + timeout;
  for (std::chrono::milliseconds pause(1);; pause = std::min(2 * pause, longest)) {
    if (has(store, keys)) return true;
    const auto now = Clock::now();
    if (now >= deadline) return false;
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
  }
}

inline std::string text_at(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> data = store.get(key);
  return {data.begin(), data.end()};
}

}  // namespace passing::torch_backend
