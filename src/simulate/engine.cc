#include "simulate/engine.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "simulate/grid.h"

namespace passing::simulate {
namespace {

bool write_all(int to, const Timing& timing) {
  return ::write(to, &timing, sizeof timing) == static_cast<ssize_t>(sizeof timing);
}

}  // namespace

Expected<Run> Run::start(const Scenario& scenario) {
  int ends[2];
  if (pipe(ends) != 0) return fail(ErrorCode::no_capacity, fmt::format("pipe: {}", std::strerror(errno)));
  std::fflush(nullptr);  // SimGrid flushes at its end, and would write what was ours once more
  const pid_t child = fork();
  if (child < 0) {
    const int reason = errno;
    close(ends[0]);
    close(ends[1]);
    return fail(ErrorCode::no_capacity, fmt::format("fork: {}", std::strerror(reason)));
  }
  if (child == 0) {
    close(ends[0]);
    // Not exit(): nothing of the parent may be flushed or destroyed here.
    _exit(write_all(ends[1], run_grid(scenario)) ? 0 : 1);
  }
  close(ends[1]);
  return Run(child, ends[0]);
}

Run::Run(Run&& other) noexcept
    : child_(std::exchange(other.child_, -1)), from_(std::exchange(other.from_, -1)) {}

Run::~Run() {
  if (child_ < 0) return;
  close(from_);
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

Expected<Timing> Run::finish() {
  Timing timing;
  ssize_t got = 0;
  do {
    got = read(from_, &timing, sizeof timing);
  } while (got < 0 && errno == EINTR);
  close(from_);
  int status = 0;
  waitpid(std::exchange(child_, -1), &status, 0);
  if (got == static_cast<ssize_t>(sizeof timing)) return timing;
  return fail(ErrorCode::no_capacity,
              WIFSIGNALED(status)
                  ? fmt::format("the simulation was ended by signal {}: is memory short?", WTERMSIG(status))
                  : std::string("the simulation ended without a result"));
}

Expected<Timing> simulate(const Scenario& scenario) {
  auto run = Run::start(scenario);
  if (!run) return tl::unexpected(run.error());
  return run->finish();
}

}  // namespace passing::simulate
