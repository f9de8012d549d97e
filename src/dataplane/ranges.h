// Which slots of a dataplane are free.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace passing::dataplane {

/// Gives out slots in a row, and takes them back. Owned by one thread, like the job table that holds it.
class SlotRanges {
 public:
  explicit SlotRanges(std::uint32_t slots);

  /// The first of `count` free slots in a row, or nothing. A range of no slots is always to be had: a job
  /// may have no lane at one of several threads.
  std::optional<std::uint32_t> take(std::uint32_t count);
  /// What take() gave, whole.
  void give_back(std::uint32_t first, std::uint32_t count);

  std::uint32_t free() const { return free_; }
  /// The most slots that one take() could have.
  std::uint32_t longest() const;

 private:
  std::uint32_t slots_;
  std::uint32_t free_;
  // First slot to count. No range is empty, and no two touch: a range is as long as it can be.
  std::map<std::uint32_t, std::uint32_t> ranges_;
};

}  // namespace passing::dataplane
