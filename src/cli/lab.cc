// `passing lab run`: a cluster on one machine, a switch in it, and a command once per rank.
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/lab_parts.h"
#include "net/mtu.h"

namespace passing::cli {
namespace {

constexpr unsigned kMostHosts = 64;

int complain(const std::string& sentence, int status = kFailed) {
  fmt::print(stderr, "passing lab: {}\n", sentence);
  return status;
}

// A launcher of the field starts the ranks itself: it gets what `passing lab agent` needs.
std::map<std::string, std::string> environment_of_launcher(const std::string& prefix) {
  return {{"PASSING_LAB", prefix}};
}

// Runs a command on a host of the lab that this process is in, as ssh would: HOST COMMAND...
int agent(const std::vector<std::string>& words) {
  const char* lab = std::getenv("PASSING_LAB");
  if (lab == nullptr)
    return complain("PASSING_LAB is not set: the agent runs inside `passing lab run --once`", kBadInput);
  if (words.size() < 2) return complain("the agent needs a host and a command", kBadInput);
  unsigned host = 0;
  while (host < kMostHosts && lab::Cluster::host_ip(host) != words[0] &&
         fmt::format("host{}", host) != words[0])
    ++host;
  if (host == kMostHosts ||
      !lab::Cluster::enter(fmt::format("{}h{}", lab, host), fmt::format("host{}", host)))
    return complain(fmt::format("there is no host '{}' in this lab", words[0]), kBadInput);
  std::string line;
  for (std::size_t i = 1; i < words.size(); ++i) line += (i > 1 ? " " : "") + words[i];
  execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
  return complain("cannot run sh");
}

nlohmann::json describe(const LabOptions& options, const std::vector<lab::Link>& links) {
  nlohmann::json list = nlohmann::json::array();
  for (const lab::Link& link : links) {
    list.push_back({{"host", link.host},
                    {"name", host_name(options, link.host)},
                    {"up_bytes", link.up.bytes},
                    {"up_packets", link.up.packets},
                    {"up_drops", link.up.drops},
                    {"down_bytes", link.down.bytes},
                    {"down_packets", link.down.packets},
                    {"down_drops", link.down.drops}});
  }
  return list;
}

int run(const LabOptions& options) {
  // First: from here on signals are ours, so that none can end us between two namespaces.
  lab::Launcher launcher;
  lab::Plan plan = options.plan;
  plan.hosts += options.servers;
  auto cluster = lab::Cluster::create(plan);
  if (!cluster) return complain(cluster.error().message);
  int status = 0;
  {
    if (!options.no_switch) {
      if (auto started = start_switch(options, *cluster, launcher); !started)
        return complain(started.error().message);
    }
    const std::string token = random_token();
    if (auto started = start_servers(options, token, *cluster, launcher); !started)
      return complain(started.error().message);
    const std::size_t first = launcher.started();
    for (unsigned host = 0; host < (options.once ? 1 : options.plan.hosts); ++host) {
      for (unsigned local = 0; local < (options.once ? 1 : options.ranks); ++local) {
        const unsigned rank = host * options.ranks + local;
        const auto started =
            launcher.start({.name = fmt::format("rank {}", rank),
                            .where = cluster->host_namespace(host),
                            .host_name = host_name(options, host),
                            .command = options.command,
                            .environment = options.once ? environment_of_launcher(cluster->prefix())
                                                        : environment_of(options, token, host, local),
                            .prefix = options.plain ? "" : fmt::format("[{}] ", rank),
                            .sink = {}});
        if (!started) return complain(started.error().message);
      }
    }
    status = launcher.wait_from(first);
    const auto links = cluster->links();
    if (!links) return complain(links.error().message);
    if (!options.json.empty()) {
      std::ofstream file(options.json);
      file << nlohmann::json{{"hosts", options.plan.hosts}, {"ranks_per_host", options.ranks},
                             {"rate", options.plan.rate},   {"mtu", options.plan.mtu},
                             {"exit_status", status},       {"links", describe(options, *links)}}
                  .dump(2)
           << "\n";
    } else if (!options.plain) {
      for (const lab::Link& link : *links) {
        fmt::print("link of {}: {:.3f} MB up, {:.3f} MB down, {} dropped\n", host_name(options, link.host),
                   1e-6 * static_cast<double>(link.up.bytes), 1e-6 * static_cast<double>(link.down.bytes),
                   link.up.drops + link.down.drops);
      }
    }
    launcher.end_all();
  }
  return status;
}

}  // namespace

void add_lab(CLI::App& app) {
  auto options = std::make_shared<LabOptions>();
  CLI::App* lab =
      app.add_subcommand("lab", "A cluster on this machine, out of network namespaces (needs root).");
  lab->require_subcommand(1);
  CLI::App* command = lab->add_subcommand(
      "run",
      "Make hosts with links into a switch, start the switch, and run a command once per rank:\n"
      "  passing lab run --hosts 4 --rate 1gbit -- passing all-reduce --elements 4000000 --repeat 10\n"
      "The command finds its rank, the controller and the token in the environment (PASSING_*, and RANK, "
      "WORLD_SIZE,\n"
      "LOCAL_RANK, MASTER_ADDR as torchrun has them). Returns the first failure; everything is removed at "
      "the end.");
  command->add_option("--hosts", options->plan.hosts, "hosts, each with a link of its own")
      ->check(whole_number(1, kMostHosts))
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "processes per host")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  command
      ->add_option("--servers", options->servers,
                   "parameter servers, each on a host of its own with a link like the others")
      ->check(whole_number(0, 16))
      ->capture_default_str();
  command
      ->add_option("--rate", options->plan.rate,
                   "of each link each way, as tc writes it (1gbit, 200mbit), or none")
      ->capture_default_str();
  command->add_option("--mtu", options->plan.mtu, "of all links")
      ->check(whole_number(net::kSmallestMtu, net::kLargestMtu))
      ->capture_default_str();
  for (const auto& [name, where, what] :
       {std::tuple{"--loss", &options->plan.loss, "percent of packets that each receiver loses"},
        {"--duplication", &options->plan.duplication, "percent of packets that arrive twice"},
        {"--reordering", &options->plan.reordering, "percent of packets that hosts send late"}}) {
    command->add_option(name, *where, what)->check(CLI::Range(0.0, 50.0));
  }
  command->add_flag(
      "--once", options->once,
      "run the command once, on host 0: a launcher that starts ranks by `passing lab agent HOST COMMAND`");
  command->add_flag("--no-switch", options->no_switch, "start no switch");
  command
      ->add_option("--switch-argument", options->switch_arguments,
                   "an argument for `passing switch`; repeat as needed")
      ->allow_extra_args(false);
  command->add_flag("--plain", options->plain, "no prefixes before the ranks' output");
  command->add_option("--json", options->json, "write what the links carried to a file");
  command->add_option("command", options->command, "the command, after --")->required();
  command->positionals_at_end();
  add_lab_demo(*lab);
  CLI::App* remote =
      lab->add_subcommand("agent", "Run a command on another host of the lab, as ssh would: HOST COMMAND...");
  remote->prefix_command();
  remote->callback([remote] {
    if (const int status = agent(remote->remaining()); status != 0) throw CLI::RuntimeError(status);
  });
  command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace passing::cli
