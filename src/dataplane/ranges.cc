#include "dataplane/ranges.h"

#include <algorithm>

#include "base/error.h"

namespace passing::dataplane {

SlotRanges::SlotRanges(std::uint32_t slots) : slots_(slots), free_(slots) {
  if (slots > 0) ranges_.emplace(0, slots);
}

std::optional<std::uint32_t> SlotRanges::take(std::uint32_t count) {
  if (count == 0) return 0;
  // First fit: jobs are few and long-lived.
  const auto fits = std::ranges::find_if(ranges_, [&](const auto& range) { return range.second >= count; });
  if (fits == ranges_.end()) return std::nullopt;
  const auto [first, length] = *fits;
  ranges_.erase(fits);
  if (length > count) ranges_.emplace(first + count, length - count);
  free_ -= count;
  return first;
}

void SlotRanges::give_back(std::uint32_t first, std::uint32_t count) {
  if (count == 0) return;
  PASSING_ASSERT(count <= slots_ && first <= slots_ - count);
  const std::uint32_t returned = count;
  const auto after = ranges_.lower_bound(first);
  PASSING_ASSERT(after == ranges_.end() || after->first - first >= count);
  if (after != ranges_.begin()) {
    const auto before = std::prev(after);
    const std::uint32_t distance = first - before->first;
    PASSING_ASSERT(distance >= before->second);
    if (distance == before->second) {
      first = before->first;
      count += before->second;
      ranges_.erase(before);
    }
  }
  if (after != ranges_.end() && after->first == first + count) {
    count += after->second;
    ranges_.erase(after);
  }
  ranges_.emplace(first, count);
  free_ += returned;
}

std::uint32_t SlotRanges::longest() const {
  std::uint32_t most = 0;
  for (const auto& [first, count] : ranges_) most = std::max(most, count);
  return most;
}

}  // namespace passing::dataplane
