// The ranks of a host, as threads or as processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "inhost/host.h"

namespace passing::test {

using Body = std::function<void(inhost::Host&)>;

/// Runs `body` on `ranks` threads, each with a host of its own.
void in_threads(std::size_t ranks, const inhost::Settings& settings, const Body& body);

/// How a process ended.
struct Report {
  bool good = false;
  bool joined = false;
  std::uint8_t code = 0;
  std::vector<std::uint16_t> members;
  std::string message;
};

/// Forked ranks. What a body returns is reported; one that fails to join reports that.
class Processes {
 public:
  using Main = std::function<Expected<void>(inhost::Host&)>;
  struct Options {
    inhost::Settings settings;
    Duration timeout = 20 * kSecond;
    std::function<void(std::size_t)> before = [](std::size_t) {};  ///< in the process, before it joins
  };
  Processes(std::size_t ranks, const Main& main, const Options& options);
  Processes(std::size_t ranks, const Main& main);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t id(std::size_t rank) const { return ids_[rank]; }
  /// Until all have joined.
  void await_joined() const;
  /// Waits for it to end, however it ends.
  Report join(std::size_t rank);
  void signal(std::size_t rank, int number) const;

 private:
  struct Board;
  void child(std::size_t rank, const Main& main, const Options& options);

  std::vector<pid_t> ids_;
  Board* board_ = nullptr;
};

}  // namespace passing::test
