// `passing lab`: a cluster on one machine. Each command is a file of its own.
#include "cli/lab_parts.h"

namespace passing::cli {

void add_lab(CLI::App& app) {
  CLI::App* lab = app.add_subcommand(
      "lab",
      "A cluster on this machine, out of network namespaces.");
  lab->require_subcommand(1);
  add_lab_run(*lab);
  add_lab_exec(*lab);
  add_lab_demo(*lab);
}

}  // namespace passing::cli
