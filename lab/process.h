// A process in a lab: what it runs, and in which namespace.
#pragma once

#include <sys/types.h>

#include <filesystem>
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
  std::filesystem::path hosts;  ///< what it has as /etc/hosts
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  ///< added to ours
  std::string prefix;                              ///< before each line of output
  LineSink sink;                                   ///< gets the lines, if set; else they are printed
};

/// Moves the calling process into a namespace, with a host name and an /etc/hosts of its own.
bool enter(const std::string& name, const std::string& host_name, const std::filesystem::path& hosts);

/// Becomes this process, with the output that the caller has. Never returns: what goes wrong is said there.
[[noreturn]] void become(const Process& process);

/// Starts a process that outlives this one, with its output in a file.
Expected<pid_t> start_detached(const Process& process, const std::filesystem::path& log);

/// Ends (SIGKILL) every process whose network is one of these namespaces, except this one; and those that
/// were told that they are of this lab (PASSING_LAB), if it is said.
void end_processes(const std::vector<std::string>& namespaces, const std::string& lab = "");

constexpr const char* kNamespaces = "/run/netns";

}  // namespace passing::lab
