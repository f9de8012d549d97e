#include <string_view>

#include "cli/commands.h"

#ifndef PASSING_VERSION_STRING
#define PASSING_VERSION_STRING "unknown"
#endif

// An exception that nobody expects ends the process with its message, which is what we want.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "simulate") return passing::cli::become_simulate(argv);
  if (passing::cli::called_as_agent(argv[0])) return passing::cli::run_agent({argv + 1, argv + argc});
  CLI::App app{"PASSING: gradient synchronisation with in-host and in-network aggregation"};
  app.set_version_flag("--version", "passing " PASSING_VERSION_STRING);
  app.set_config("--config", "", "read options from a TOML file: one table per subcommand");
  app.require_subcommand(1);
  passing::cli::add_switch(app);
  passing::cli::add_server(app);
  passing::cli::add_all_reduce(app);
  passing::cli::add_status(app);
  passing::cli::add_lab(app);
  passing::cli::add_bench(app, argc, argv);
  passing::cli::add_train(app, argc, argv);
  passing::cli::add_simulate(app);
  passing::cli::add_rehearse(app);
  passing::cli::add_report(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // thrown by a subcommand that has said why
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : passing::cli::kBadInput;
  }
  return 0;
}
