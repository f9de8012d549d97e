// A tensor in pieces: what one message carries.
#pragma once

#include <algorithm>
#include <cstddef>

namespace passing::strategy {

struct Range {
  std::size_t first = 0;  ///< elements
  std::size_t count = 0;

  Range half(bool upper) const {
    const std::size_t low = count / 2;
    return upper ? Range{first + low, count - low} : Range{first, low};
  }
};

/// The part of `count` elements that the i-th of `parts` owns.
inline Range part(std::size_t count, std::size_t i, std::size_t parts) {
  const std::size_t begin = count * i / parts;
  return {begin, count * (i + 1) / parts - begin};
}

/// Calls take(Range) for each piece of at most `chunk_bytes`, in order.
template <class Take>
void in_chunks(const Range& range, std::size_t width, std::size_t chunk_bytes, const Take& take) {
  const std::size_t most = chunk_bytes / width;
  for (std::size_t at = 0; at < range.count; at += most)
    take(Range{range.first + at, std::min(most, range.count - at)});
}

}  // namespace passing::strategy
