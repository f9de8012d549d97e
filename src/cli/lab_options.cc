// The options that say what a lab is like.
#include <fmt/format.h>

#include <regex>

#include "cli/lab_parts.h"
#include "net/mtu.h"

namespace passing::cli {
namespace {

constexpr unsigned kMostHosts = 64;
constexpr unsigned kMostServers = 16;

// It is part of the names of namespaces and a directory.
CLI::Validator name_of_lab() {
  return CLI::Validator(
      [](const std::string& text) {
        static const std::regex allowed("[A-Za-z0-9][A-Za-z0-9_-]{0,31}");
        return std::regex_match(text, allowed)
                   ? std::string()
                   : fmt::format("'{}': must be 1 to 32 letters, digits, - or _", text);
      },
      "", "name");
}

}  // namespace

CLI::Validator rate_of_link() {
  return CLI::Validator(
      [](const std::string& text) {
        static const std::regex allowed("none|[0-9]+(\\.[0-9]+)?[kmgt]?bit");
        return std::regex_match(text, allowed)
                   ? std::string()
                   : fmt::format("'{}': must be a rate as tc writes it, such as 200mbit or 1gbit, or none",
                                 text);
      },
      "", "rate");
}

void add_name_option(CLI::App& command, std::string& name) {
  command.add_option("--name", name, "which lab; needed if there are several")->envname("PASSING_LAB_NAME");
}

const std::vector<std::string>& dataplanes() {
  static const std::vector<std::string> names = {"userspace", "mmsg", "tc", "xdp"};
  return names;
}

void add_dataplane_option(CLI::App& command, lab::Plan& plan) {
  command
      .add_option("--dataplane", plan.dataplane,
                  "where the switch sums: userspace, mmsg (the same without segmentation offload), or in the "
                  "kernel (tc, xdp). See docs/dataplanes.md")
      ->check(CLI::IsMember(dataplanes()))
      ->capture_default_str();
}

std::string contradiction(const lab::Plan& plan) {
  if (plan.racks > plan.hosts)
    return fmt::format("--racks: '{}': there are only {} hosts", plan.racks, plan.hosts);
  if (plan.dataplane == "xdp" && plan.mtu > net::kLargestXdpMtu) {
    return fmt::format("--mtu: '{}': XDP takes frames of one buffer, up to {}; use --dataplane tc", plan.mtu,
                       net::kLargestXdpMtu);
  }
  if (plan.in_kernel() && (plan.impairment.duplication > 0 || plan.impairment.reordering > 0)) {
    return fmt::format(
        "--duplication, --reordering: before a switch in the kernel links only lose packets; use --dataplane "
        "userspace");
  }
  return "";
}

void add_plan_options(CLI::App& command, LabOptions& options) {
  lab::Plan& plan = options.plan;
  command.add_option("--name", options.name, "name by which other commands know the lab")
      ->check(name_of_lab());
  command.add_option("--hosts", plan.hosts, "hosts, each with a link of its own")
      ->check(whole_number(1, kMostHosts))
      ->capture_default_str();
  command.add_option("--ranks", options.ranks, "ranks per host")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  command
      .add_option(
          "--racks", plan.racks,
          "racks that share the hosts, at most one per host. Several racks have an uplink each, to a spine "
          "where the switch is")
      ->check(whole_number(1, kMostHosts))
      ->capture_default_str();
  command
      .add_option("--servers", plan.servers,
                  "parameter servers, each on a host of its own with a link like the others. With racks they "
                  "are at the spine")
      ->check(whole_number(0, kMostServers))
      ->capture_default_str();
  command
      .add_option("--rate", plan.rate,
                  "rate of each link each way, as tc writes it (1gbit, 200mbit); none: not shaped")
      ->check(rate_of_link())
      ->capture_default_str();
  command.add_option("--spine-rate", plan.spine_rate, "rate of each rack's uplink. Default: --rate")
      ->check(rate_of_link());
  command.add_option("--mtu", plan.mtu, "MTU of all links, in bytes")
      ->check(whole_number(net::kSmallestMtu, net::kLargestMtu))
      ->capture_default_str();
  for (const auto& [name, where, what] :
       {std::tuple{"--loss", &plan.impairment.loss, "percent of packets that every link loses; 0 unless set"},
        {"--duplication", &plan.impairment.duplication, "percent of packets that arrive twice; 0 unless set"},
        {"--reordering", &plan.impairment.reordering,
         "percent of packets that arrive late, behind others; 0 unless set"}}) {
    command.add_option(name, *where, what)->check(CLI::Range(0.0, 50.0));
  }
  add_dataplane_option(command, plan);
  command.add_flag("--no-switch", options.no_switch, "start no switch");
  command
      .add_option("--switch-argument", options.switch_arguments,
                  "argument for `passing switch`; repeat for several")
      ->allow_extra_args(false);
  command.parse_complete_callback([&options] {
    if (const std::string why = contradiction(options.plan); !why.empty()) throw CLI::ValidationError(why);
  });
}

}  // namespace passing::cli
