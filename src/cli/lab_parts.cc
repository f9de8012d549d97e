#include "cli/lab_parts.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lab/names.h"
#include "lab/shell.h"
#include "net/hex.h"

namespace passing::cli {
namespace {

constexpr std::uint16_t kControllerPort = 9001;
constexpr std::uint16_t kServerPort = 9100;

// Parameter servers have hosts of their own, after those of the ranks.
std::string server_address(const lab::Plan& plan, unsigned server) {
  return fmt::format("{}:{}", lab::Map::host_ip(plan.hosts + server), kServerPort);
}

std::string random_token() {
  std::uint64_t value[2] = {};
  PASSING_ASSERT(getrandom(value, sizeof value, 0) == sizeof value);
  return net::to_hex(value[0]) + net::to_hex(value[1]);
}

bool sums_in_racks() {
  const char* domain = std::getenv("PASSING_LOCAL_DOMAIN");
  return domain != nullptr && std::string(domain) == "rack";
}

lab::Process switch_process(const lab::Cluster& cluster, const std::vector<std::string>& arguments) {
  lab::Process process{.name = "switch",
                       .where = cluster.switch_namespace(),
                       .host_name = "switch",
                       .hosts = lab::hosts_file(cluster.state()),
                       .command = {std::filesystem::read_symlink("/proc/self/exe"), "switch", "--listen",
                                   lab::Map::switch_ip() + ":9000", "--http", controller_address(), "--mtu",
                                   std::to_string(cluster.plan().mtu)},
                       .environment = {{"PASSING_LAB", cluster.map().prefix()}},
                       .prefix = "[switch] ",
                       .sink = {}};
  if (cluster.plan().dataplane == "mmsg") process.command.emplace_back("--no-segmentation");
  if (cluster.plan().in_kernel()) {
    process.command.insert(process.command.end(), {"--dataplane", cluster.plan().dataplane});
    for (const std::string& port : cluster.map().switch_ports())
      process.command.insert(process.command.end(), {"--interface", port});
  }
  process.command.insert(process.command.end(), arguments.begin(), arguments.end());
  return process;
}

lab::Process server_process(const lab::Cluster& cluster, unsigned server) {
  const lab::Plan& plan = cluster.plan();
  const std::string name = cluster.map().host_name(plan.hosts + server);
  return {.name = name,
          .where = cluster.host_namespace(plan.hosts + server),
          .host_name = name,
          .hosts = lab::hosts_file(cluster.state()),
          .command = {std::filesystem::read_symlink("/proc/self/exe"), "server", "--listen",
                      server_address(plan, server), "--index", std::to_string(server), "--of",
                      std::to_string(plan.servers)},
          .environment = {{"PASSING_LAB", cluster.map().prefix()}, {"PASSING_TOKEN", cluster.state().token}},
          .prefix = fmt::format("[{}] ", name),
          .sink = {}};
}

}  // namespace

std::string link_rate(const lab::Plan& plan, bool in_racks) {
  if (const char* set = std::getenv("PASSING_LINK_RATE"); set != nullptr) return set;
  // Who sums in the rack first is slowed down by the uplinks.
  const double bits = lab::bits_per_second(plan.racks > 1 && in_racks ? plan.uplink_rate() : plan.rate);
  return bits > 0 ? fmt::format("{:g}", 1e-9 * bits) : "";
}

int complain(const std::string& sentence, int status) {
  fmt::print(stderr, "passing lab: {}\n", sentence.substr(0, sentence.find_last_not_of('\n') + 1));
  return status;
}

void finish(int status) {
  if (status != 0) throw CLI::RuntimeError(status);
}

std::string controller_address() { return fmt::format("{}:{}", lab::Map::switch_ip(), kControllerPort); }

lab::State wanted(const LabOptions& options) {
  return {.name = options.name,
          .prefix = {},
          .plan = options.plan,
          .ranks = options.ranks,
          .with_switch = !options.no_switch,
          .token = random_token(),
          .links = {}};
}

Expected<lab::Cluster> open_lab(const std::string& name) {
  auto cluster = lab::Cluster::open(name);
  if (cluster && !cluster->exists()) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("the namespaces of lab '{0}' are gone: `passing lab down {0}` removes what is left",
                    cluster->state().name));
  }
  return cluster;
}

std::map<std::string, std::string> environment_of(const lab::State& state) {
  std::string servers;
  for (unsigned s = 0; s < state.plan.servers; ++s)
    servers += (s == 0 ? "" : ",") + server_address(state.plan, s);
  return {{"PASSING_LAB", state.prefix},        {"PASSING_LAB_NAME", state.name},
          {"PASSING_TOKEN", state.token},       {"PASSING_CONTROLLER", controller_address()},
          {"PASSING_SERVERS", servers},         {"PASSING_LINK_RATE", link_rate(state.plan, sums_in_racks())},
          {"MASTER_ADDR", lab::Map::host_ip(0)}};
}

std::map<std::string, std::string> environment_of(const lab::State& state, unsigned host, unsigned local) {
  const std::string rank = std::to_string(host * state.ranks + local);
  const std::string size = std::to_string(state.plan.hosts * state.ranks);
  std::map<std::string, std::string> environment = {
      {"PASSING_RANK", rank},
      {"PASSING_SIZE", size},
      {"PASSING_LOCAL_RANK", std::to_string(local)},
      {"PASSING_LOCAL_SIZE", std::to_string(state.ranks)},
      {"PASSING_HOST", fmt::format("host{}", host)},
      {"PASSING_RACK", fmt::format("rack{}", state.plan.rack_of(host))},
      {"PASSING_HOST_IP", lab::Map::host_ip(host)},
      {"PASSING_JOB", "lab"},
      {"RANK", rank},
      {"WORLD_SIZE", size},
      {"LOCAL_RANK", std::to_string(local)},
      {"LOCAL_WORLD_SIZE", std::to_string(state.ranks)},
      {"MASTER_PORT", "29500"}};
  environment.merge(environment_of(state));
  return environment;
}

std::map<std::string, std::string> environment_of_launcher(const lab::State& state) {
  const std::string agent = lab::agent_file(state);
  std::map<std::string, std::string> environment = {{"PASSING_LAB_AGENT", agent},
                                                    {"OMPI_MCA_plm_rsh_agent", agent},
                                                    {"HYDRA_LAUNCHER", "rsh"},
                                                    {"HYDRA_LAUNCHER_EXEC", agent}};
  environment.merge(environment_of(state));
  return environment;
}

lab::Process rank_process(const lab::Cluster& cluster, unsigned rank,
                          const std::vector<std::string>& command) {
  const unsigned host = rank / cluster.state().ranks;
  return {.name = fmt::format("rank {}", rank),
          .where = cluster.host_namespace(host),
          .host_name = cluster.map().host_name(host),
          .hosts = lab::hosts_file(cluster.state()),
          .command = command,
          .environment = environment_of(cluster.state(), host, rank % cluster.state().ranks),
          .prefix = fmt::format("[{}] ", rank),
          .sink = {}};
}

bool listens(const std::string& where, std::uint16_t port) {
  const auto sockets = lab::run({"ip", "netns", "exec", where, "cat", "/proc/net/tcp"});
  return sockets && sockets->find(fmt::format(":{:04X} 00000000:0000 0A", port)) != std::string::npos;
}

Expected<void> start_services(const lab::Cluster& cluster, const std::vector<std::string>& switch_arguments,
                              const Starter& start) {
  if (cluster.state().with_switch) {
    // It listens on HTTP last.
    if (auto started = start(switch_process(cluster, switch_arguments), kControllerPort); !started)
      return started;
  }
  for (unsigned s = 0; s < cluster.plan().servers; ++s) {
    if (auto started = start(server_process(cluster, s), kServerPort); !started) return started;
  }
  return {};
}

Expected<void> start_services(const LabOptions& options, const lab::Cluster& cluster,
                              lab::Launcher& launcher) {
  return start_services(
      cluster, options.switch_arguments, [&](lab::Process process, std::uint16_t port) -> Expected<void> {
        if (options.plain) process.prefix = "";
        process.sink = options.log;
        if (auto started = launcher.start(process); !started) return started;
        if (!launcher.watch(launcher.started() - 1, 5000, [&] { return listens(process.where, port); }))
          return fail(ErrorCode::unreachable, fmt::format("the {} did not start", process.name));
        return {};
      });
}

nlohmann::json describe(const std::vector<lab::Link>& links, const lab::LinkStates& states) {
  nlohmann::json list = nlohmann::json::array();
  for (const lab::Link& link : links) {
    const lab::LinkState& state = states.at(link.name);
    // A host by its number; racks are numbered on their own.
    list.push_back({{link.kind == lab::LinkKind::rack ? "rack" : "host", link.index},
                    {"name", link.name},
                    {"kind", to_string(link.kind)},
                    {"rate", state.rate},
                    {"loss", state.impairment.loss},
                    {"duplication", state.impairment.duplication},
                    {"reordering", state.impairment.reordering},
                    {"down", state.down},
                    {"up_bytes", link.up.bytes},
                    {"up_packets", link.up.packets},
                    {"up_drops", link.up.drops},
                    {"down_bytes", link.down.bytes},
                    {"down_packets", link.down.packets},
                    {"down_drops", link.down.drops}});
  }
  return list;
}

}  // namespace passing::cli
