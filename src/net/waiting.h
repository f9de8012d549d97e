// Says on standard error what a group that is being founded waits for: silence looks like a hang.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "base/reminder.h"

namespace passing::net {

/// CLOCK_MONOTONIC in nanoseconds.
Time monotonic_now();

/// One wait of one rank.
class Waiting {
 public:
  Waiting(std::string who, bool quiet) : who_(std::move(who)), quiet_(quiet), reminder_(monotonic_now()) {}

  /// Called again and again; `what` makes a text such as "rank 3 at the controller 10.0.0.1:9001".
  template <class What>
  void look(What what) {
    const Time now = monotonic_now();
    if (quiet_ || !reminder_.due(now)) return;
    fmt::print(stderr, "passing: {} has waited {} s for {}\n", who_, reminder_.waited(now) / kSecond, what());
    std::fflush(stderr);
  }

 private:
  std::string who_;
  bool quiet_;
  Reminder reminder_;
};

}  // namespace passing::net
