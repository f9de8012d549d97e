#include <memory>
#include <string_view>

#include "cli/commands.h"
#include "cli/help.h"

#ifndef PASSING_VERSION_STRING
#define PASSING_VERSION_STRING "unknown"
#endif

// An exception that nobody expects ends the process with its message, which is what we want.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "simulate") return passing::cli::become_simulate(argv);
  if (passing::cli::called_as_agent(argv[0])) return passing::cli::run_agent({argv + 1, argv + argc});
  CLI::App app{"PASSING sums gradients in the host and in the network."};
  app.formatter(std::make_shared<passing::cli::Help>());
  app.set_version_flag("--version", "passing " PASSING_VERSION_STRING);
  app.set_config("--config", "", "TOML file with options: one table per command")->option_text("FILE");
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
  passing::cli::add_settings(app);
  // Commands that are added later would inherit it.
  app.footer(
      "`passing COMMAND --help` says more about a command.\n"
      "Examples:\n"
      "  passing lab run --hosts 4 --rate 1gbit -- passing all-reduce --elements 4000000\n"
      "  passing bench --hosts 4 --ranks 2 --rate 1gbit --sizes 1M,16M --json results.json");
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
