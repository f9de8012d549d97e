// Waiting for others at a rendezvous, and what to say when they do not come.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "net/rendezvous.h"
#include "net/waiting.h"

namespace passing::net {

using Clock = std::chrono::steady_clock;

/// Looks again soon at first, then less often. Many ranks look more rarely: all of them ask one disk or
/// controller.
class Patience {
 public:
  static constexpr std::chrono::milliseconds kFirstPause{2};
  static constexpr std::chrono::milliseconds kLastPause{50};

  explicit Patience(const Rendezvous& who)
      : deadline_(Clock::now() + std::chrono::nanoseconds(who.timeout)),
        longest_(std::max(kLastPause, std::chrono::milliseconds(who.size))),
        waiting_(fmt::format("rank {}", who.rank), who.quiet) {}

  void again() { pause_ = kFirstPause; }
  // False when the time is over. `what` says what is waited for.
  template <class What>
  bool nap(What what) {
    const auto now = Clock::now();
    if (now >= deadline_) return false;
    waiting_.look(what);
    std::this_thread::sleep_for(std::min<Clock::duration>(pause_, deadline_ - now));
    pause_ = std::min(2 * pause_, longest_);
    return true;
  }

 private:
  Clock::time_point deadline_;
  std::chrono::milliseconds longest_;
  std::chrono::milliseconds pause_ = kFirstPause;
  Waiting waiting_;
};

inline std::string list(const std::vector<std::uint16_t>& ranks) {
  constexpr std::size_t kMostNamed = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kMostNamed) text += fmt::format(" and {} more", ranks.size() - kMostNamed);
  return text;
}

inline double seconds(Duration time) { return static_cast<double>(time) / kSecond; }

inline tl::unexpected<Error> too_late(const Rendezvous& who, const std::string& where,
                                      const std::vector<std::uint16_t>& missing) {
  return fail(
      ErrorCode::deadline,
      fmt::format("job '{}' is not complete after {:.1f} s; missing at {}: rank {}; start all ranks with "
                  "the same job and size",
                  who.job, seconds(who.timeout), where, list(missing)),
      missing);
}

}  // namespace passing::net
