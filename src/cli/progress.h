// How far something is, on stderr.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace passing::cli {

/// A line that rewrites itself on a terminal, and a few lines elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label) : label_(std::move(label)) {}

  void show(double share) {
    const int percent = static_cast<int>(100 * share);
    if (isatty(STDERR_FILENO) != 0) {
      const int filled = percent * 30 / 100;
      fmt::print(stderr, "\r{:<24} [{:<30}] {:3} %", label_, std::string(filled, '#'), percent);
      std::fflush(stderr);
    } else if (percent / 25 > shown_ / 25) {
      fmt::print(stderr, "{}: {} %\n", label_, percent);
    }
    shown_ = percent;
  }
  void end() const {
    if (isatty(STDERR_FILENO) != 0 && shown_ >= 0) fmt::print(stderr, "\r{:<70}\r", "");
  }

 private:
  std::string label_;
  int shown_ = 0;
};

}  // namespace passing::cli
