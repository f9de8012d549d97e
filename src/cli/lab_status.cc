// `passing lab status`: the labs of this machine, what their links carried, and whether their switch answers.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/lab_parts.h"
#include "lab/names.h"
#include "net/controller_client.h"

namespace passing::cli {
namespace {

using nlohmann::json;

// Asked from inside, by a child: there is no way back out of a namespace.
bool switch_answers(const lab::Cluster& cluster) {
  const pid_t child = fork();
  if (child == 0) {
    const bool answers = lab::enter(cluster.switch_namespace(), "switch", lab::hosts_file(cluster.state())) &&
                         net::ControllerClient(controller_address()).get("/v1/switch").has_value();
    _exit(answers ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

Expected<json> look(const std::string& name) {
  const auto cluster = open_lab(name);
  if (!cluster) return tl::unexpected(cluster.error());
  const auto links = cluster->links();
  if (!links) return tl::unexpected(links.error());
  const lab::State& state = cluster->state();
  return json{{"name", state.name},
              {"process", state.owner},
              {"hosts", state.plan.hosts},
              {"servers", state.plan.servers},
              {"racks", state.plan.racks},
              {"ranks_per_host", state.ranks},
              {"rate", state.plan.rate},
              {"spine_rate", state.plan.uplink_rate()},
              {"mtu", state.plan.mtu},
              {"dataplane", state.plan.dataplane},
              {"namespaces", state.prefix},
              {"logs", lab::directory_of(state.name).string()},
              {"controller", controller_address()},
              {"switch", !state.with_switch         ? "none"
                         : switch_answers(*cluster) ? "answers"
                                                    : "does not answer"},
              {"links", describe(*links, state.links)}};
}

std::string faults(const json& link) {
  std::string text;
  if (link["down"].get<bool>()) text = "down";
  for (const char* each : {"loss", "duplication", "reordering"}) {
    if (const auto percent = link[each].get<double>(); percent > 0)
      text += fmt::format("{}{} {:g} %", text.empty() ? "" : ", ", each, percent);
  }
  return text;
}

void print(const json& lab) {
  const auto number = [&](const char* key) { return lab[key].get<unsigned>(); };
  fmt::print("lab '{}'{}: {} hosts, {} ranks on each, racks: {}, servers: {}, MTU {}, switch: {}\n\n",
             lab["name"].get<std::string>(),
             number("process") == 0 ? "" : fmt::format(" of process {}", number("process")), number("hosts"),
             number("ranks_per_host"), number("racks"), number("servers"), number("mtu"),
             lab["switch"].get<std::string>());
  fmt::print("{:<10} {:>9} {:>12} {:>10} {:>7} {:>12} {:>10} {:>7}\n", "link", "rate", "MB up", "packets",
             "drops", "MB down", "packets", "drops");
  for (const json& link : lab["links"]) {
    const auto count = [&](const char* key) { return link[key].get<std::uint64_t>(); };
    fmt::print("{:<10} {:>9} {:>12.3f} {:>10} {:>7} {:>12.3f} {:>10} {:>7}  {}\n",
               link["name"].get<std::string>(), link["rate"].get<std::string>(),
               1e-6 * static_cast<double>(count("up_bytes")), count("up_packets"), count("up_drops"),
               1e-6 * static_cast<double>(count("down_bytes")), count("down_packets"), count("down_drops"),
               faults(link));
  }
  fmt::print("\n");
}

int run(const std::string& name, bool as_json) {
  if (geteuid() != 0) return complain("labs that stay are root's: run it as root (sudo passing lab status)");
  lab::Cluster::remove_leftovers();
  const std::vector<std::string> names = name.empty() ? lab::names() : std::vector{name};
  json all = json::array();
  int status = 0;
  for (const std::string& each : names) {
    if (const auto found = look(each)) {
      all.push_back(*found);
    } else {
      status = complain(found.error().message);
    }
  }
  if (as_json) {
    fmt::print("{}\n", json{{"labs", all}}.dump(2));
  } else {
    for (const json& lab : all) print(lab);
    if (names.empty()) fmt::print("There are no labs. Make one with `passing lab up`.\n");
  }
  return status;
}

}  // namespace

void add_lab_status(CLI::App& lab) {
  struct Options {
    std::string name;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = lab.add_subcommand(
      "status", "Show labs: links with rates, counts and faults, and whether the switch answers.");
  command->add_option("name", options->name, "which lab. Default: all");
  command->add_flag("--json", options->json, "print JSON, for programs");
  command->callback([options] { finish(run(options->name, options->json)); });
}

}  // namespace passing::cli
