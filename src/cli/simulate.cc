// `passing simulate`, as `passing` sees it: a program beside this one.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/commands.h"
#include "cli/share.h"

namespace passing::cli {

void add_simulate(CLI::App& app) {
  app.add_subcommand("simulate",
                     "Predict how long an iteration takes with each strategy, on up to 65,536 GPUs.");
}

int become_simulate(char** argv) {
  const std::string program = beside_us("passing-simulate");
  execv(program.c_str(), argv + 1);
  if (errno == ENOENT) {
    fmt::print(stderr,
               "passing simulate: {} is not there: this passing was built without SimGrid; install "
               "libsimgrid-dev and "
               "libtomlplusplus-dev (tools/install-deps does), then configure and build again\n",
               program);
  } else {
    fmt::print(stderr, "passing simulate: {} cannot be started: {}\n", program, std::strerror(errno));
  }
  return kFailed;
}

}  // namespace passing::cli
