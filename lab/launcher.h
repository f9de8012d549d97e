// Processes in a lab: started in a namespace, their output prefixed, ended whatever happens.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace passing::lab {

using LineSink = std::function<void(const std::string&)>;

struct Process {
  std::string name;   ///< for messages and the prefix of its output
  std::string where;  ///< namespace
  std::string host_name;
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  ///< added to ours
  std::string prefix;                              ///< before each line of output
  LineSink sink;                                   ///< gets the lines, if set; else they are printed
};

/// Starts processes and watches over them. One thread. A child dies with this process,
/// even if that is killed; what a child started and left behind is ended by the cluster.
class Launcher {
 public:
  Launcher();
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  Expected<void> start(const Process& process);
  /// How many there are: the index that the next one gets.
  std::size_t started() const { return children_.size(); }
  /// Waits until the processes started from index `from` on have ended, passing their output on; returns
  /// the first exit status that is not 0. A signal (Ctrl-C) ends them all and returns 128 + signal.
  int wait_from(std::size_t from);
  /// Whether a signal has ended it all.
  bool interrupted() const { return caught_ != 0; }
  /// Passes output on for a while; stops early if `done` says so. False if process `index` has ended.
  bool watch(std::size_t index, int milliseconds, const std::function<bool()>& done);
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
