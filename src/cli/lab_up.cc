// `passing lab up` and `passing lab down`: a cluster that stays.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "cli/lab_parts.h"

namespace passing::cli {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// With its output in the lab's log.
Expected<void> start_in_background(const lab::Cluster& cluster, const lab::Process& process,
                                   std::uint16_t port) {
  const auto log = lab::directory_of(cluster.state().name) / (process.name + ".log");
  const auto child = lab::start_detached(process, log);
  if (!child) return tl::unexpected(child.error());
  for (int waited = 0; waited < 5000; waited += 20) {
    if (listens(process.where, port)) return {};
    if (waitpid(*child, nullptr, WNOHANG) == *child) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return fail(ErrorCode::unreachable, fmt::format("the {} did not start: {}", process.name, text_of(log)));
}

int up(const LabOptions& options) {
  if (geteuid() != 0) {
    return complain(
        "a lab that stays needs root (sudo passing lab up ...); without root, `passing lab run` works where "
        "the system allows user namespaces");
  }
  lab::Launcher launcher;  // signals are ours, so that none can end us half-way
  auto cluster = lab::Cluster::create(wanted(options), lab::Cluster::Life::until_removed);
  if (!cluster) return complain(cluster.error().message);
  const auto started = start_services(*cluster, options.switch_arguments,
                                      [&](const lab::Process& process, std::uint16_t port) {
                                        return start_in_background(*cluster, process, port);
                                      });
  if (!started) return complain(started.error().message);
  if (auto kept = cluster->keep(); !kept) return complain(kept.error().message);
  if (launcher.interrupted()) {
    cluster->remove();
    return complain("interrupted: nothing stays");
  }
  const std::string& name = cluster->state().name;
  fmt::print(
      "Lab '{0}' is up: {1} hosts of {2} in {3}. Logs: {4}\n"
      "  passing lab exec --name {0} all -- COMMAND    once per rank; or on host0, switch, ...\n"
      "  passing lab link --name {0} host0 --loss 1    or --down, --up, --rate ...\n"
      "  passing lab status {0}                        what its links carried\n"
      "  passing lab down {0}\n",
      name, options.plan.hosts, options.ranks == 1 ? "1 rank" : fmt::format("{} ranks", options.ranks),
      options.plan.racks == 1 ? "1 rack" : fmt::format("{} racks", options.plan.racks),
      lab::directory_of(name).string());
  return 0;
}

int down(const std::string& wanted) {
  auto cluster = lab::Cluster::open(wanted);
  if (!cluster) {
    // What cannot be read can still be removed.
    const auto name = geteuid() == 0 ? lab::choose(wanted) : fail(ErrorCode::invalid_argument, "");
    if (!name || lab::load(*name)) return complain(cluster.error().message);
    lab::Cluster::remove_remains(*name);
    fmt::print("Lab '{}' is down, by its name alone: what was known about it was damaged.\n", *name);
    return 0;
  }
  const std::string name = cluster->state().name;
  if (const pid_t owner = cluster->state().owner; owner != 0) {
    return complain(
        fmt::format("lab '{}' is that of a running command, process {}: end that, and the lab goes with it",
                    name, owner));
  }
  const bool complete = cluster->exists();
  cluster->remove();
  fmt::print("Lab '{}' is down{}.\n", name, complete ? "" : "; some of its namespaces were gone already");
  return 0;
}

}  // namespace

void add_lab_up(CLI::App& lab) {
  auto options = std::make_shared<LabOptions>();
  options->name = "lab";
  CLI::App* command =
      lab.add_subcommand("up",
                         "Make a cluster that stays until `passing lab down`.\n\nIts switch and servers run "
                         "in the background. Several labs can be up under different names. Needs root.");
  add_plan_options(*command, *options);
  command->get_option("--name")->capture_default_str();
  command->footer(
      "Example:\n  passing lab up --hosts 4 --racks 2 --ranks 2 --rate 1gbit --spine-rate 500mbit");
  command->callback([options] { finish(up(*options)); });
}

void add_lab_down(CLI::App& lab) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = lab.add_subcommand("down", "End what runs in a lab that is up, and remove it.");
  command->add_option("name", *name, "which lab; needed if there are several")->envname("PASSING_LAB_NAME");
  command->callback([name] { finish(down(*name)); });
}

}  // namespace passing::cli
