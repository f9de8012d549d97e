// `passing lab exec`: a command at some place of a lab.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/lab_parts.h"
#include "lab/names.h"

namespace passing::cli {
namespace {

struct Options {
  std::string name;
  std::string place;
  std::vector<std::string> command;
};

int run_on_all(const lab::Cluster& cluster, const Options& options) {
  lab::Launcher launcher;
  for (unsigned rank = 0; rank < cluster.plan().hosts * cluster.state().ranks; ++rank) {
    if (auto started = launcher.start(rank_process(cluster, rank, options.command)); !started)
      return complain(started.error().message);
  }
  return launcher.wait_from(0);
}

std::optional<lab::Process> find(const lab::Cluster& cluster, const Options& options) {
  for (unsigned rank = 0; rank < cluster.plan().hosts * cluster.state().ranks; ++rank) {
    if (options.place == fmt::format("rank{}", rank)) return rank_process(cluster, rank, options.command);
  }
  const std::string where = cluster.map().find(options.place);
  if (where.empty()) return std::nullopt;
  return lab::Process{.name = options.place,
                      .where = where,
                      .host_name = options.place,
                      .hosts = lab::hosts_file(cluster.state()),
                      .command = options.command,
                      .environment = environment_of(cluster.state()),
                      .prefix = "",
                      .sink = {}};
}

// What there is instead of a place that there is not.
std::string places(const lab::Cluster& cluster, const std::string& place) {
  const auto several = [](const char* what, unsigned count) {
    if (count == 0) return std::string();
    return count == 1 ? fmt::format("{}0, ", what) : fmt::format("{0}0 to {0}{1}, ", what, count - 1);
  };
  const lab::Plan& plan = cluster.plan();
  return fmt::format("there is no '{}' in lab '{}': there are {}{}{}{}switch, and all for every rank", place,
                     cluster.state().name, several("host", plan.hosts), several("server", plan.servers),
                     several("rank", plan.hosts * cluster.state().ranks), several("tor", plan.racks));
}

int run(Options options) {
  if (options.command.front() == "--") options.command.erase(options.command.begin());
  if (options.command.empty()) return complain("exec: no command after --", kBadInput);
  const auto cluster = open_lab(options.name);
  if (!cluster) return complain(cluster.error().message);
  if (options.place == "all") return run_on_all(*cluster, options);
  const auto process = find(*cluster, options);
  if (!process) return complain(places(*cluster, options.place), kBadInput);
  lab::become(*process);  // in our place, with our terminal
}

}  // namespace

void add_lab_exec(CLI::App& lab) {
  auto options = std::make_shared<Options>();
  CLI::App* command = lab.add_subcommand("exec", "Run a command in a lab that is up.");
  add_name_option(*command, options->name);
  command
      ->add_option("place", options->place,
                   "where: host0, server0, switch (or spine) or tor0; rank0, with the variables of that "
                   "rank; or all, once per rank")
      ->required();
  command->add_option("command", options->command, "the command, after --")->required();
  command->positionals_at_end();
  command->footer(
      "Examples:\n  passing lab exec all -- passing all-reduce --elements 4000000\n  passing lab exec host0 "
      "-- sh");
  command->callback([options] { finish(run(*options)); });
}

}  // namespace passing::cli
