// The store of a group, in text.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
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

inline bool comes_within(c10d::Store& store, const std::vector<std::string>& keys,
                         std::chrono::milliseconds timeout) {
  try {
    store.wait(keys, std::max(timeout, std::chrono::milliseconds(1)));  // 0 would mean for ever
    return true;
  } catch (const std::exception&) {
    return has(store, keys);
  }
}

inline std::string text_at(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> data = store.get(key);
  return {data.begin(), data.end()};
}

}  // namespace passing::torch_backend
