// Who talks to whom when it is not about data: docs/faults.md section 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace passing::judge {

/// The ranks at distances of powers of two, in both directions; ascending.
inline std::vector<std::uint32_t> neighbours(std::uint32_t rank, std::uint32_t size) {
  std::vector<std::uint32_t> all;
  for (std::uint64_t distance = 1; distance < size; distance *= 2) {
    all.push_back(static_cast<std::uint32_t>((rank + distance) % size));
    all.push_back(static_cast<std::uint32_t>((rank + size - distance) % size));
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace passing::judge
