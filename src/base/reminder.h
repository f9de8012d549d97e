// When to say that something is still being waited for. Header only: the backend for PyTorch uses it too.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace passing {

/// After 3 s, then after twice the time, but at least once a minute. Reads no clock.
class Reminder {
 public:
  static constexpr Duration kFirst = 3 * kSecond;
  static constexpr Duration kLongest = 60 * kSecond;

  explicit Reminder(Time begun) : begun_(begun), next_(begun + kFirst) {}

  bool due(Time now) {
    if (now < next_) return false;
    next_ = now + std::clamp(now - begun_, kFirst, kLongest);
    return true;
  }
  Duration waited(Time now) const { return now - begun_; }

 private:
  Time begun_;
  Time next_;
};

}  // namespace passing
