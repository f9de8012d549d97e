#include "cli/lab_parts.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdlib>
#include <filesystem>

#include "lab/shell.h"
#include "net/hex.h"

namespace passing::cli {
namespace {

constexpr std::uint16_t kControllerPort = 9001;
constexpr std::uint16_t kServerPort = 9100;

// Parameter servers have hosts of their own, after those of the ranks.
std::string server_address(const LabOptions& options, unsigned server) {
  return fmt::format("{}:{}", lab::Cluster::host_ip(options.plan.hosts + server), kServerPort);
}

// Passes output on until the process that was started last listens.
bool await_listener(lab::Launcher& launcher, const std::string& where, std::uint16_t port) {
  const std::string listens = fmt::format(":{:04X} 00000000:0000 0A", port);
  return launcher.watch(launcher.started() - 1, 5000, [&] {
    const auto sockets = lab::run({"ip", "netns", "exec", where, "cat", "/proc/net/tcp"});
    return sockets && sockets->find(listens) != std::string::npos;
  });
}

}  // namespace

std::string random_token() {
  std::uint64_t value[2] = {};
  PASSING_ASSERT(getrandom(value, sizeof value, 0) == sizeof value);
  return net::to_hex(value[0]) + net::to_hex(value[1]);
}

std::string host_name(const LabOptions& options, unsigned host) {
  return host < options.plan.hosts ? fmt::format("host{}", host)
                                   : fmt::format("server{}", host - options.plan.hosts);
}

namespace {

// In Gbit/s, of a rate as tc writes it; empty: not shaped, or written in a way of tc's that is rare.
std::string link_rate(const std::string& rate) {
  if (const char* set = std::getenv("PASSING_LINK_RATE"); set != nullptr) return set;
  for (const auto& [unit, gigabits] : {std::pair{"gbit", 1.0}, {"mbit", 1e-3}, {"kbit", 1e-6}}) {
    if (rate.ends_with(unit)) return fmt::format("{:g}", std::strtod(rate.c_str(), nullptr) * gigabits);
  }
  return "";
}

}  // namespace

std::map<std::string, std::string> environment_of(const LabOptions& options, const std::string& token,
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

Expected<void> start_switch(const LabOptions& options, const lab::Cluster& cluster, lab::Launcher& launcher) {
  lab::Process process{.name = "switch",
                       .where = cluster.switch_namespace(),
                       .host_name = "switch",
                       .command = {std::filesystem::read_symlink("/proc/self/exe"), "switch", "--listen",
                                   lab::Cluster::switch_ip() + ":9000", "--http",
                                   fmt::format("{}:{}", lab::Cluster::switch_ip(), kControllerPort), "--mtu",
                                   std::to_string(options.plan.mtu)},
                       .environment = {},
                       .prefix = options.plain ? "" : "[switch] ",
                       .sink = options.log};
  process.command.insert(process.command.end(), options.switch_arguments.begin(),
                         options.switch_arguments.end());
  if (auto started = launcher.start(process); !started) return started;
  // It listens on HTTP last.
  if (!await_listener(launcher, process.where, kControllerPort))
    return fail(ErrorCode::unreachable, "the switch did not start");
  return {};
}

Expected<void> start_servers(const LabOptions& options, const std::string& token, const lab::Cluster& cluster,
                             lab::Launcher& launcher) {
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
                               .prefix = options.plain ? "" : fmt::format("[{}] ", name),
                               .sink = options.log};
    if (auto started = launcher.start(process); !started) return started;
    if (!await_listener(launcher, process.where, kServerPort))
      return fail(ErrorCode::unreachable, name + " did not start");
  }
  return {};
}

}  // namespace passing::cli
