#include "launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

namespace passing::lab {
namespace {

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, each);
  return signals;
}

}  // namespace

Launcher::Launcher() {
  const sigset_t signals = watched_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

// NOLINTNEXTLINE(bugprone-exception-escape): see its declaration
Launcher::~Launcher() {
  end_all();
  close(signals_);
  const sigset_t signals = watched_signals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

Expected<void> Launcher::start(const Process& process) {
  int output[2];
  if (pipe2(output, O_CLOEXEC) != 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", process.name, std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    setsid();  // a group of its own, which can be ended as one
    dup2(output[1], STDOUT_FILENO);
    dup2(output[1], STDERR_FILENO);
    become(process);
  }
  close(output[1]);
  if (child < 0) {
    close(output[0]);
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", process.name, std::strerror(errno)));
  }
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  children_.push_back({.process = process, .pid = child, .output = output[0]});
  return {};
}

double Launcher::cpu_seconds(std::size_t from, std::size_t to) const {
  std::uint64_t ticks = 0;
  for (std::size_t i = from; i < std::min(to, children_.size()); ++i) {
    std::ifstream file(fmt::format("/proc/{}/stat", children_[i].pid));
    std::string line;
    if (children_[i].ended || !std::getline(file, line)) continue;
    // Behind the name, which may hold anything: state, ten numbers, then time in user and in system mode.
    std::istringstream rest(line.substr(line.rfind(')') + 2));
    std::string skipped;
    for (int field = 0; field < 11; ++field) rest >> skipped;
    std::uint64_t user = 0;
    std::uint64_t system = 0;
    rest >> user >> system;
    ticks += user + system;
  }
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int Launcher::wait_from(std::size_t from) {
  const auto running = [&] {
    return std::any_of(children_.begin() + static_cast<std::ptrdiff_t>(from), children_.end(),
                       [](const Child& child) { return !child.ended || child.output >= 0; });
  };
  while (running() && caught_ == 0) pass_output(-1);
  if (caught_ != 0) {
    end_all();
    return 128 + caught_;
  }
  for (std::size_t i = from; i < children_.size(); ++i) {
    const int status = children_[i].status;
    if (status != 0) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return 0;
}

bool Launcher::interrupted() {
  pass_output(0);
  return caught_ != 0;
}

bool Launcher::watch(std::size_t index, int milliseconds, const std::function<bool()>& done) {
  for (int waited = 0; waited < milliseconds && !done(); waited += 20) {
    pass_output(20);
    if (children_[index].ended || caught_ != 0) return false;
  }
  return !children_[index].ended;
}

bool Launcher::wait_until(std::size_t from, int milliseconds, const std::function<bool()>& done) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(milliseconds);
  while (!done()) {
    if (!ended(from).empty() || caught_ != 0 || Clock::now() >= deadline) return false;
    pass_output(100);
  }
  return true;
}

std::string Launcher::ended(std::size_t from) const {
  std::string killed;
  std::string others;
  for (std::size_t i = from; i < children_.size(); ++i) {
    const Child& child = children_[i];
    if (!child.ended) continue;
    const bool by_signal = WIFSIGNALED(child.status);
    std::string& text = by_signal ? killed : others;
    if (!text.empty()) text += ", ";
    text += by_signal ? fmt::format("{} was killed by signal {} ({})", child.process.name,
                                    WTERMSIG(child.status), strsignal(WTERMSIG(child.status)))
                      : fmt::format("{} ended with status {}", child.process.name, WEXITSTATUS(child.status));
  }
  return killed.empty() || others.empty() ? killed + others : killed + ", " + others;
}

// Waits for output, the end of a child or a signal, and deals with it.
void Launcher::pass_output(int milliseconds) {
  std::vector<pollfd> sources = {{signals_, POLLIN, 0}};
  std::vector<Child*> owners = {nullptr};
  for (Child& child : children_) {
    if (child.output < 0) continue;
    sources.push_back({child.output, POLLIN, 0});
    owners.push_back(&child);
  }
  if (poll(sources.data(), sources.size(), milliseconds) <= 0) return;
  for (std::size_t i = 1; i < sources.size(); ++i) {
    if (sources[i].revents != 0) read_output(*owners[i]);
  }
  signalfd_siginfo received{};
  while (read(signals_, &received, sizeof received) == sizeof received) {
    if (received.ssi_signo != SIGCHLD) caught_ = static_cast<int>(received.ssi_signo);
  }
  reap();
}

void Launcher::read_output(Child& child) {
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(child.output, buffer, sizeof buffer)) > 0) {
    for (ssize_t i = 0; i < got; ++i) {
      if (buffer[i] != '\n') {
        child.line += buffer[i];
        continue;
      }
      pass_line(child);
    }
  }
  std::fflush(stdout);
  if (got < 0 && errno == EAGAIN) return;
  if (!child.line.empty()) pass_line(child);
  close(child.output);
  child.output = -1;
}

void Launcher::pass_line(Child& child) {
  if (child.process.sink) {
    child.process.sink(child.line);
  } else {
    fmt::print("{}{}\n", child.process.prefix, child.line);
  }
  child.line.clear();
}

void Launcher::reap() {
  for (Child& child : children_) {
    if (!child.ended && waitpid(child.pid, &child.status, WNOHANG) == child.pid) child.ended = true;
  }
}

void Launcher::end_from(std::size_t from) {
  const auto first = children_.begin() + static_cast<std::ptrdiff_t>(std::min(from, children_.size()));
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (auto child = first; child != children_.end(); ++child) {
      kill(-child->pid, signal);  // the whole group: its leader may have ended before others
    }
    for (int waited = 0; waited < 4000; waited += 20) {
      reap();
      if (std::all_of(first, children_.end(), [](const Child& child) { return child.ended; })) break;
      pass_output(20);
    }
  }
  for (auto child = first; child != children_.end(); ++child) {
    if (child->output >= 0) read_output(*child);
    if (child->output >= 0) close(child->output);
  }
  children_.erase(first, children_.end());
}

}  // namespace passing::lab
