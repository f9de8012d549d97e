// The round-trip estimator: docs/protocol.md section 6.2.
#pragma once

#include "base/time.h"
#include "endpoint/config.h"

namespace passing::endpoint {

class RoundTrip {
 public:
  explicit RoundTrip(const Config& config)
      : minimum_timeout_(config.minimum_timeout),
        maximum_timeout_(config.maximum_timeout),
        timeout_(config.initial_timeout) {}

  /// A chunk sent once has its result. `own`: this member was the last contributor.
  void sample(Duration measured, bool own);
  /// The timer after `expiries` expiries in a row.
  Duration timeout(unsigned expiries) const;
  /// How late a packet may be before a later one is evidence that it is lost.
  Duration reordering_allowance() const;
  Duration smoothed() const { return smoothed_; }
  Duration smallest() const { return smallest_; }  ///< 0: none seen

 private:
  Duration minimum_timeout_;
  Duration maximum_timeout_;
  Duration timeout_;
  Duration smoothed_ = 0;
  Duration deviation_ = 0;
  Duration smallest_ = 0;
};

}  // namespace passing::endpoint
