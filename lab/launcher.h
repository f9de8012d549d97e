// Processes in a lab: started in a namespace, their output prefixed, ended whatever happens.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "process.h"

namespace passing::lab {

/// Starts processes and watches over them. One thread. A child dies with this process,
/// even if that is killed; what a child started and left behind is ended by the cluster.
class Launcher {
 public:
  Launcher();
  ~Launcher();  // NOLINT(bugprone-exception-escape): if printing throws, ending the process is right
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  Expected<void> start(const Process& process);
  /// How many there are: the index that the next one gets.
  std::size_t started() const { return children_.size(); }
  /// Of the processes from index `from` to before `to` that still run.
  double cpu_seconds(std::size_t from, std::size_t to) const;
  /// Waits until the processes started from index `from` on have ended, passing their output on; returns
  /// the first exit status that is not 0. A signal (Ctrl-C) ends them all and returns 128 + signal.
  int wait_from(std::size_t from);
  /// Whether a signal has ended it all, or is to.
  bool interrupted();
  /// Passes output on for a while; stops early if `done` says so. False if process `index` has ended.
  bool watch(std::size_t index, int milliseconds, const std::function<bool()>& done);
  /// Passes output on until `done` says so. False if that did not come in time, or one of the processes from
  /// index `from` on has ended, or a signal came.
  bool wait_until(std::size_t from, int milliseconds, const std::function<bool()>& done);
  /// Which of those from index `from` on have ended, and how, in words; who was killed comes first. Empty:
  /// none.
  std::string ended(std::size_t from) const;
  /// SIGTERM, then SIGKILL after four seconds, to each process's whole group; those from index `from` on are
  /// forgotten then.
  void end_from(std::size_t from);
  void end_all() { end_from(0); }

 private:
  struct Child {
    Process process;
    pid_t pid = 0;
    int output = -1;
    std::string line;
    bool ended = false;
    int status = 0;
  };

  void pass_output(int milliseconds);
  void read_output(Child& child);
  static void pass_line(Child& child);
  void reap();

  std::vector<Child> children_;
  int signals_ = -1;
  int caught_ = 0;
};

}  // namespace passing::lab
