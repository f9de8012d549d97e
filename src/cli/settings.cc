// `passing settings`: every variable that is read, as docs/configuration.md. What it prints comes from the
// tables that the code itself uses: settings, launchers, the options of all commands, what a lab tells.
#include "communicator/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/lab_parts.h"

namespace passing::cli {
namespace {

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

// What only processes in a lab are told. The rest of what they are told are settings, and torchrun's names.
struct LabVariable {
  const char* name;
  const char* meaning;
};

constexpr LabVariable kLabVariables[] = {
    {"PASSING_HOST_IP", "The address of the rank's host."},
    {"PASSING_LAB", "What the names of the lab's namespaces begin with. It marks processes in a lab."},
    {"PASSING_LAB_AGENT", "For launchers in `run --once`: a program that takes the arguments of ssh."},
    {"PASSING_LAB_NAME", "The lab's name, so that `passing lab` needs none."},
};

void print_settings() {
  fmt::print(
      "## Settings of a communicator\n\n"
      "A C++ program sets `Config` (`include/passing/config.h`), a C program calls `passing_config_set`\n"
      "with the name in small letters and without `PASSING_`. `Config::from_environment()` and the examples\n"
      "read the variables. So does the PyTorch backend, except rank and size (also those on the host),\n"
      "time-out and directory: these it has from torch, or needs none. A variable that is set to nothing\n"
      "counts as not set.\n\n"
      "| variable | meaning | default | unit | range |\n|---|---|---|---|---|\n");
  const Config defaults;
  for (const Setting& each : settings()) {
    const std::string shown = each.field.show(defaults);
    fmt::print("| `{}` | {} | {} | {} | {} |\n", variable_of(each.name), each.meaning,
               shown.empty() ? "empty" : code(shown), each.field.unit,
               each.range.empty() ? each.field.kind : each.range);
  }
}

void print_launchers() {
  fmt::print(
      "\n## What launchers say\n\n"
      "Rank and size come from the first of these launchers that has set both. The order puts the launcher\n"
      "first that is usually nearest to the process. There is one exception: a process that srun itself has\n"
      "started is Slurm's, unless `PASSING_RANK` and `PASSING_SIZE`, or `RANK` and `WORLD_SIZE`, are set.\n"
      "MPICH counts only if it has set `MPI_LOCALRANKID`.\n"
      "\n"
      "The rank on the host comes from the same launcher, unless `PASSING_LOCAL_RANK` and\n"
      "`PASSING_LOCAL_SIZE` are set. The job's name comes from the first launcher that has set one.\n\n"
      "| launcher | rank | size | rank on the host | ranks on the host | job | beside these |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const Launcher& each : launchers()) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {} |\n", each.name, code(each.rank), code(each.size),
               code(each.local_rank), code(each.local_size), code(each.job), each.beside);
  }
}

struct Option {
  std::set<std::string> names;  // `passing switch --slots`
  std::string meaning;
  std::string initially;
  std::string range;
};

void collect(const CLI::App& command, const std::string& path, std::map<std::string, Option>& found) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_envname().empty()) continue;
    Option& entry = found[option->get_envname()];
    entry.names.insert(fmt::format("`{} {}`", path, option->get_name()));
    if (!entry.meaning.empty()) continue;  // the first command explains it
    entry.meaning = option->get_description();
    entry.initially = default_of(*option);
    entry.range = range_of(*option);
  }
  for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; }))
    collect(*part, path + " " + part->get_name(), found);
}

void print_options(const CLI::App& app) {
  fmt::print(
      "\n## Options of commands\n\n"
      "An option on the command line wins over its variable.\n\n"
      "| variable | option | meaning | default | range |\n|---|---|---|---|---|\n");
  std::map<std::string, Option> found;
  collect(app, "passing", found);
  for (const auto& [variable, option] : found) {
    fmt::print("| `{}` | {} | {} | {} | {} |\n", variable, fmt::join(option.names, ", "), option.meaning,
               code(option.initially), option.range);
  }
}

void print_lab() {
  fmt::print(
      "\n## In a lab\n\n"
      "`passing lab` sets these for what runs in it.\n\n"
      "| variable | meaning |\n|---|---|\n");
  std::set<std::string> only_here;
  for (const LabVariable& each : kLabVariables) {
    fmt::print("| `{}` | {} |\n", each.name, each.meaning);
    only_here.insert(each.name);
  }
  fmt::print("\nRanks get these, too:\n\n");
  for (const auto& [name, value] : environment_of(lab::State{}, 0, 0)) {
    if (!only_here.contains(name)) fmt::print("- `{}`\n", name);
  }
}

void print_page(const CLI::App& app) {
  fmt::print(
      "# Configuration\n\n"
      "Every environment variable that the library and the command read. `passing settings` prints this\n"
      "page from the tables that the code itself uses. A test compares the two.\n\n");
  print_settings();
  print_launchers();
  print_options(app);
  print_lab();
}

}  // namespace

void add_settings(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "settings", "Print every environment variable with its default and range (docs/configuration.md).");
  command->callback([&app] { print_page(app); });
}

}  // namespace passing::cli
