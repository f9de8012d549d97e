// Which bytes of a rank's part are in use. The book is kept outside: neighbours have no business in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

#include "inhost/layout.h"

namespace passing::inhost {

/// Whole pages, first fit.
class Heap {
 public:
  Heap() = default;
  Heap(std::size_t first, std::size_t bytes) {
    if (bytes > 0) spare_[first] = bytes;
  }

  std::optional<std::size_t> take(std::size_t bytes) {
    const std::size_t whole = pages(bytes);
    const auto found =
        std::find_if(spare_.begin(), spare_.end(), [&](const auto& each) { return each.second >= whole; });
    if (whole < bytes || found == spare_.end()) return std::nullopt;
    const auto [at, size] = *found;
    spare_.erase(found);
    if (size > whole) spare_[at + whole] = size - whole;
    used_[at] = whole;
    return at;
  }
  /// Its bytes; 0: nothing was taken there.
  std::size_t give_back(std::size_t at) {
    const auto found = used_.find(at);
    if (found == used_.end()) return 0;
    const std::size_t bytes = found->second;
    used_.erase(found);
    auto it = spare_.emplace(at, bytes).first;
    if (const auto next = std::next(it); next != spare_.end() && it->first + it->second == next->first) {
      it->second += next->second;
      spare_.erase(next);
    }
    if (it != spare_.begin()) {
      const auto before = std::prev(it);
      if (before->first + before->second == it->first) {
        before->second += it->second;
        spare_.erase(it);
      }
    }
    return bytes;
  }
  std::size_t largest() const {
    std::size_t most = 0;
    for (const auto& [at, bytes] : spare_) most = std::max(most, bytes);
    return most;
  }

 private:
  static std::size_t pages(std::size_t bytes) {
    return (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  }
  std::map<std::size_t, std::size_t> spare_;  // bytes by offset
  std::map<std::size_t, std::size_t> used_;
};

}  // namespace passing::inhost
