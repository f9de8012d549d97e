#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

namespace passing::lab {
namespace {

// In a view of the file system of our own; nothing of it outlives the process. Only what lies below the file
// is cut off from other views, so that namespaces which this process makes are seen by all.
bool show_names(const std::filesystem::path& hosts) {
  std::error_code problem;
  // It may be a link into another file system.
  const auto file = std::filesystem::canonical("/etc/hosts", problem);
  if (problem) return true;                                   // nobody looks there, then
  if (!std::filesystem::exists(hosts, problem)) return true;  // a lab of an older version has no names
  if (unshare(CLONE_NEWNS) != 0) return false;
  std::filesystem::path below;
  for (const auto& part : file) {
    below /= part;
    if (mount(nullptr, below.c_str(), nullptr, MS_PRIVATE, nullptr) != 0 && errno != EINVAL) return false;
  }
  return mount(hosts.c_str(), file.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

}  // namespace

bool enter(const std::string& name, const std::string& host_name, const std::filesystem::path& hosts) {
  const int descriptor = open(fmt::format("{}/{}", kNamespaces, name).c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = descriptor >= 0 && setns(descriptor, CLONE_NEWNET) == 0;
  if (descriptor >= 0) close(descriptor);
  return entered && unshare(CLONE_NEWUTS) == 0 && sethostname(host_name.c_str(), host_name.size()) == 0 &&
         show_names(hosts);
}

void become(const Process& process) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!enter(process.where, process.host_name, process.hosts)) {
    dprintf(STDERR_FILENO, "cannot enter namespace %s: %s\n", process.where.c_str(), std::strerror(errno));
    _exit(126);
  }
  for (const auto& [key, value] : process.environment) setenv(key.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : process.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "cannot run %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

Expected<pid_t> start_detached(const Process& process, const std::filesystem::path& log) {
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t child = output >= 0 && input >= 0 ? fork() : -1;
  if (child == 0) {
    setsid();
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    become(process);
  }
  const int problem = errno;
  if (output >= 0) close(output);
  if (input >= 0) close(input);
  if (child < 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} ({}): {}", process.name, log.string(), std::strerror(problem)));
  }
  return child;
}

namespace {

// By a name in /run/netns, or by /proc/PID/ns/net: the same for all processes in it.
std::optional<std::pair<dev_t, ino_t>> identity(const std::filesystem::path& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return std::nullopt;
  return std::pair{file.st_dev, file.st_ino};
}

bool was_told(const std::filesystem::path& process, const std::string& lab) {
  if (lab.empty()) return false;
  std::ifstream stream(process / "environ");
  for (std::string setting; std::getline(stream, setting, '\0');) {
    if (setting == "PASSING_LAB=" + lab) return true;
  }
  return false;
}

}  // namespace

void end_processes(const std::vector<std::string>& namespaces, const std::string& lab) {
  std::vector<std::pair<dev_t, ino_t>> ours;
  for (const std::string& name : namespaces) {
    if (const auto found = identity(std::filesystem::path(kNamespaces) / name)) ours.push_back(*found);
  }
  // Again while there are any: they may have been starting others.
  for (int round = 0; round < 100; ++round) {
    bool any = false;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const auto pid = static_cast<pid_t>(std::atol(entry.path().filename().c_str()));
      if (pid <= 0 || pid == getpid()) continue;
      const auto where = identity(entry.path() / "ns/net");
      if (!where) continue;
      if (std::find(ours.begin(), ours.end(), *where) == ours.end() && !was_told(entry.path(), lab)) continue;
      kill(pid, SIGKILL);
      any = true;
    }
    if (!any) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace passing::lab
