// `passing lab`: a cluster on one machine. Each command is a file of its own.
#include "cli/lab_parts.h"

namespace passing::cli {

void add_lab(CLI::App& app) {
  CLI::App* lab =
      app.add_subcommand("lab",
                         "Make a cluster on this machine, out of network namespaces.\n\n`run` makes one for "
                         "a command. `up` makes one that stays, for `exec`, `link`, `status` and `down`. "
                         "`passing lab COMMAND --help` says more; docs/lab.md has all of it.");
  lab->require_subcommand(1);
  add_lab_run(*lab);
  add_lab_up(*lab);
  add_lab_down(*lab);
  add_lab_status(*lab);
  add_lab_exec(*lab);
  add_lab_link(*lab);
  add_lab_demo(*lab);
  add_lab_agent(*lab);
}

}  // namespace passing::cli
