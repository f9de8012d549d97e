// The store of a group, in text.
#pragma once

#include <string>
#include <vector>

#include "base.h"

namespace passing::torch_backend {

inline void put(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

inline std::string text_at(c10d::Store& store, const std::string& key) {
  const std::vector<std::uint8_t> data = store.get(key);
  return {data.begin(), data.end()};
}

}  // namespace passing::torch_backend
