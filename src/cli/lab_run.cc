// `passing lab run`: a cluster, a switch in it, and a command once per rank; nothing stays.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/lab_parts.h"
#include "cli/report.h"
#include "lab/privilege.h"

namespace passing::cli {
namespace {

Expected<void> start_ranks(const LabOptions& options, const lab::Cluster& cluster, lab::Launcher& launcher) {
  const unsigned ranks = options.once ? 1 : options.plan.hosts * options.ranks;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    lab::Process process = rank_process(cluster, rank, options.command);
    // A launcher of the field says who is which rank itself.
    if (options.once) process.environment = environment_of_launcher(cluster.state());
    if (options.plain) process.prefix = "";
    if (auto started = launcher.start(process); !started) return started;
  }
  return {};
}

Expected<void> report(const LabOptions& options, const lab::Cluster& cluster, int status) {
  const auto links = cluster.links();
  if (!links) return tl::unexpected(links.error());
  if (!options.json.empty()) {
    // What was changed on the way counts, too.
    const auto state = lab::load(cluster.state().name);
    if (!state) return tl::unexpected(state.error());
    std::ofstream file(options.json);
    file << nlohmann::json{{"hosts", options.plan.hosts},
                           {"racks", options.plan.racks},
                           {"ranks_per_host", options.ranks},
                           {"rate", options.plan.rate},
                           {"mtu", options.plan.mtu},
                           {"exit_status", status},
                           {"links", describe(*links, state->links)}}
                .dump(2)
         << "\n";
    if (!file)
      return fail(ErrorCode::invalid_argument, fmt::format("--json: cannot write '{}'", options.json));
    return {};
  }
  for (const lab::Link& link : *links) {
    if (options.plain) break;
    fmt::print("link of {}: {:.3f} MB up, {:.3f} MB down, {} dropped\n", link.name,
               1e-6 * static_cast<double>(link.up.bytes), 1e-6 * static_cast<double>(link.down.bytes),
               link.up.drops + link.down.drops);
  }
  return {};
}

Expected<int> run_in(const LabOptions& options, const lab::Cluster& cluster, lab::Launcher& launcher) {
  if (auto started = start_services(options, cluster, launcher); !started)
    return tl::unexpected(started.error());
  const std::size_t first = launcher.started();
  if (auto started = start_ranks(options, cluster, launcher); !started)
    return tl::unexpected(started.error());
  const int status = launcher.wait_from(first);
  if (auto reported = report(options, cluster, status); !reported) return tl::unexpected(reported.error());
  return status;
}

int run(const LabOptions& options) {
  // Before the command runs, not after it.
  if (const auto can = can_write(options.json, ""); !can) return complain(can.error().message, kBadInput);
  if (auto gained = lab::gain_privilege(); !gained) return complain(gained.error().message);
  // First: from here on signals are ours, so that none can end us between two namespaces.
  lab::Launcher launcher;
  const auto cluster = lab::Cluster::create(wanted(options));
  if (!cluster) return complain(cluster.error().message);
  const auto status = run_in(options, *cluster, launcher);
  launcher.end_all();
  return status ? *status : complain(status.error().message);
}

}  // namespace

void add_lab_run(CLI::App& lab) {
  auto options = std::make_shared<LabOptions>();
  CLI::App* command = lab.add_subcommand(
      "run",
      "Make a cluster, run a command once per rank, and remove the cluster.\n\nThe command finds its rank, "
      "the controller and the token in the environment: PASSING_*, and RANK, WORLD_SIZE, LOCAL_RANK and "
      "MASTER_ADDR as torchrun sets them. The exit status is that of the first rank that fails. Needs root, "
      "or a system that allows user namespaces to everyone.");
  add_plan_options(*command, *options);
  command->add_flag(
      "--once", options->once,
      "run the command once, on host0: for launchers that start ranks on host0, host1, ... by `passing lab "
      "agent` (mpirun and MPICH's mpiexec know of it)");
  command->add_flag("--plain", options->plain, "print the ranks' output without prefixes");
  command->add_option("--json", options->json, "file for what the links carried");
  command->add_option("command", options->command, "the command, after --")->required();
  command->positionals_at_end();
  command->footer(
      "Example:\n  passing lab run --hosts 4 --rate 1gbit -- passing all-reduce --elements 4000000 --repeat "
      "10");
  command->callback([options] { finish(run(*options)); });
}

}  // namespace passing::cli
