// What the long-running commands share: how they end, and where they log.
#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>

#include "cli/commands.h"

namespace passing::cli {

int ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

std::string await_ending(int signals, const std::function<void()>& every_second) {
  pollfd source{signals, POLLIN, 0};
  while (::poll(&source, 1, every_second ? 1000 : -1) <= 0) {
    if (every_second) every_second();
  }
  signalfd_siginfo received{};
  static_cast<void>(!::read(signals, &received, sizeof received));
  ::close(signals);
  return strsignal(static_cast<int>(received.ssi_signo));
}

void log_to_stderr(const std::string& who) {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>(who, std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
}

}  // namespace passing::cli
