// How far ahead of the oldest chunk without a result a lane may send: docs/protocol.md section 6.1.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace passing::endpoint {

class Window {
 public:
  explicit Window(std::uint32_t slots)
      : slots_(slots), start_(std::min<std::uint32_t>(slots, 64)), size_(start_) {}

  std::uint32_t size() const { return size_; }

  void on_result() {
    if (size_ >= slots_) return;
    if (starting_ || ++credit_ >= size_) {
      ++size_;
      credit_ = 0;
    }
  }

  /// Evidence of loss; counts once per round trip. `by_timer`: nothing but the timer found it, so the
  /// loss was heavy. An expired timer alone proves nothing: mostly someone else is late.
  void on_loss(Time now, Duration round_trip, bool by_timer) {
    starting_ = false;
    if (now < next_cut_) return;
    next_cut_ = now + round_trip;
    const std::uint32_t floor = std::min(by_timer ? std::min<std::uint32_t>(slots_, 8) : start_, size_);
    size_ = std::max(floor, size_ - size_ / (by_timer ? 2 : 8));
  }

 private:
  std::uint32_t slots_;
  std::uint32_t start_;
  std::uint32_t size_;
  std::uint32_t credit_ = 0;
  bool starting_ = true;
  Time next_cut_ = 0;
};

}  // namespace passing::endpoint
