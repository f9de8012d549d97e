#include "endpoint/round_trip.h"

#include <algorithm>

namespace passing::endpoint {

void RoundTrip::sample(Duration measured, bool own) {
  if (smallest_ == 0 || measured < smallest_) smallest_ = std::max<Duration>(measured, 1);
  if (smoothed_ == 0) {
    // The wait for a member that came late must not make this one slow to send again: 3 x this is the timer.
    if (!own) measured = std::min(measured, timeout_ / 3);
    smoothed_ = std::max<Duration>(measured, 1);
    deviation_ = smoothed_ / 2;
  } else {
    // Anything else measures the wait for someone slower, not the path.
    if (!own && measured > smoothed_) return;
    const Duration error = measured - smoothed_;
    deviation_ += ((error < 0 ? -error : error) - deviation_) / 4;
    smoothed_ += error / 8;
  }
  timeout_ = std::clamp(smoothed_ + 4 * deviation_, minimum_timeout_, maximum_timeout_);
}

Duration RoundTrip::timeout(unsigned expiries) const {
  Duration backed_off = timeout_;
  for (unsigned i = 0; i < expiries && backed_off < maximum_timeout_; ++i) backed_off *= 2;
  return std::min(backed_off, maximum_timeout_);
}

Duration RoundTrip::reordering_allowance() const {
  return std::clamp<Duration>(smoothed_ / 4, 50 * kMicrosecond, 5 * kMillisecond);
}

}  // namespace passing::endpoint
