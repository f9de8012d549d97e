// `passing lab run`: a cluster on one machine, a switch in it, and a command once per rank.
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "lab/cluster.h"
#include "lab/launcher.h"
#include "lab/shell.h"
#include "net/hex.h"
#include "net/mtu.h"

namespace passing::cli {
namespace {

constexpr std::uint16_t kControllerPort = 9001;
constexpr std::uint16_t kServerPort = 9100;
constexpr unsigned kMostHosts = 64;

struct Options {
  lab::Plan plan;
  unsigned ranks = 1;
  unsigned servers = 0;
  bool no_switch = false;
  bool plain = false;
  bool once = false;
  std::string json;
  std::vector<std::string> switch_arguments;
  std::vector<std::string> command;
};

int complain(const std::string& sentence, int status = kFailed) {
  fmt::print(stderr, "passing lab: {}\n", sentence);
  return status;
}

std::string random_token() {
  std::uint64_t value[2] = {};
  PASSING_ASSERT(getrandom(value, sizeof value, 0) == sizeof value);
  return net::to_hex(value[0]) + net::to_hex(value[1]);
}

// Parameter servers have hosts of their own, after those of the ranks.
std::string server_address(const Options& options, unsigned server) {
  return fmt::format("{}:{}", lab::Cluster::host_ip(options.plan.hosts + server), kServerPort);
}

std::string host_name(const Options& options, unsigned host) {
  return host < options.plan.hosts ? fmt::format("host{}", host)
                                   : fmt::format("server{}", host - options.plan.hosts);
}

// In Gbit/s, of a rate as tc writes it; empty: not shaped, or written in a way of tc's that is rare.
std::string link_rate(const std::string& rate) {
  if (const char* set = std::getenv("PASSING_LINK_RATE"); set != nullptr) return set;
  for (const auto& [unit, gigabits] : {std::pair{"gbit", 1.0}, {"mbit", 1e-3}, {"kbit", 1e-6}}) {
    if (rate.ends_with(unit)) return fmt::format("{:g}", std::strtod(rate.c_str(), nullptr) * gigabits);
  }
  return "";
}

// What launchers tell their processes; PASSING_* first, then torchrun's names.
std::map<std::string, std::string> environment_of(const Options& options, const std::string& token,
                                                  unsigned host, unsigned local) {
  const std::string rank = std::to_string(host * options.ranks + local);
  const std::string size = std::to_string(options.plan.hosts * options.ranks);
  std::string servers;
  for (unsigned s = 0; s < options.servers; ++s) servers += (s == 0 ? "" : ",") + server_address(options, s);
  return {{"PASSING_RANK", rank},
          {"PASSING_LINK_RATE", link_rate(options.plan.rate)},
          {"PASSING_SIZE", size},
          {"PASSING_LOCAL_RANK", std::to_string(local)},
          {"PASSING_LOCAL_SIZE", std::to_string(options.ranks)},
          {"PASSING_HOST", fmt::format("host{}", host)},
          {"PASSING_HOST_IP", lab::Cluster::host_ip(host)},
          {"PASSING_JOB", "lab"},
          {"PASSING_TOKEN", token},
          {"PASSING_CONTROLLER", fmt::format("{}:{}", lab::Cluster::switch_ip(), kControllerPort)},
          {"PASSING_SERVERS", servers},
          {"RANK", rank},
          {"WORLD_SIZE", size},
          {"LOCAL_RANK", std::to_string(local)},
          {"LOCAL_WORLD_SIZE", std::to_string(options.ranks)},
          {"MASTER_ADDR", lab::Cluster::host_ip(0)},
          {"MASTER_PORT", "29500"}};
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

// Passes output on until a process listens.
bool await_listener(lab::Launcher& launcher, std::size_t process, const std::string& where,
                    std::uint16_t port) {
  const std::string listens = fmt::format(":{:04X} 00000000:0000 0A", port);
  return launcher.watch(process, 5000, [&] {
    const auto sockets = lab::run({"ip", "netns", "exec", where, "cat", "/proc/net/tcp"});
    return sockets && sockets->find(listens) != std::string::npos;
  });
}

Expected<void> start_switch(const Options& options, const lab::Cluster& cluster, lab::Launcher& launcher) {
  lab::Process process{.name = "switch",
                       .where = cluster.switch_namespace(),
                       .host_name = "switch",
                       .command = {std::filesystem::read_symlink("/proc/self/exe"), "switch", "--listen",
                                   lab::Cluster::switch_ip() + ":9000", "--http",
                                   fmt::format("{}:{}", lab::Cluster::switch_ip(), kControllerPort), "--mtu",
                                   std::to_string(options.plan.mtu)},
                       .environment = {},
                       .prefix = options.plain ? "" : "[switch] "};
  process.command.insert(process.command.end(), options.switch_arguments.begin(),
                         options.switch_arguments.end());
  if (auto started = launcher.start(process); !started) return started;
  // It listens on HTTP last.
  if (!await_listener(launcher, 0, process.where, kControllerPort))
    return fail(ErrorCode::unreachable, "the switch did not start");
  return {};
}

Expected<void> start_servers(const Options& options, const std::string& token, const lab::Cluster& cluster,
                             lab::Launcher& launcher, std::size_t first) {
  for (unsigned s = 0; s < options.servers; ++s) {
    const unsigned host = options.plan.hosts + s;
    const std::string name = host_name(options, host);
    const lab::Process process{.name = name,
                               .where = cluster.host_namespace(host),
                               .host_name = name,
                               .command = {std::filesystem::read_symlink("/proc/self/exe"), "server",
                                           "--listen", server_address(options, s), "--index",
                                           std::to_string(s), "--of", std::to_string(options.servers)},
                               .environment = {{"PASSING_TOKEN", token}},
                               .prefix = options.plain ? "" : fmt::format("[{}] ", name)};
    if (auto started = launcher.start(process); !started) return started;
    if (!await_listener(launcher, first + s, process.where, kServerPort))
      return fail(ErrorCode::unreachable, name + " did not start");
  }
  return {};
}

nlohmann::json describe(const Options& options, const std::vector<lab::Link>& links) {
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

int run(const Options& options) {
  // First: from here on signals are ours, so that none can end us between two namespaces.
  lab::Launcher launcher;
  lab::Plan plan = options.plan;
  plan.hosts += options.servers;
  auto cluster = lab::Cluster::create(plan);
  if (!cluster) return complain(cluster.error().message);
  int status = 0;
  {
    std::size_t first = 0;
    if (!options.no_switch) {
      if (auto started = start_switch(options, *cluster, launcher); !started)
        return complain(started.error().message);
      first = 1;
    }
    const std::string token = random_token();
    if (auto started = start_servers(options, token, *cluster, launcher, first); !started)
      return complain(started.error().message);
    first += options.servers;
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
                            .prefix = options.plain ? "" : fmt::format("[{}] ", rank)});
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
  auto options = std::make_shared<Options>();
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
