#include "cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "shell.h"

namespace passing::lab {
namespace {

constexpr const char* kNamespaces = "/run/netns";
constexpr const char* kPrefix = "passing-";  // then the process, then the place: passing-123-h0

// Settings found by measurement: a burst below a super-packet collapses everyone, a small limit
// stops progress. The count of an unshaped link needs a queue too.
std::string queue(const std::string& rate) {
  return rate == "none" ? "pfifo limit 20000" : fmt::format("tbf rate {} burst 128kb limit 1mb", rate);
}

// Ends what still runs in a namespace of ours, then removes it; its interfaces go with it.
void remove(const std::string& name) {
  if (const auto pids = run({"ip", "netns", "pids", name})) {
    std::istringstream stream(*pids);
    for (pid_t pid = 0; stream >> pid;) kill(pid, SIGKILL);
  }
  static_cast<void>(run({"ip", "netns", "del", name}));
}

Expected<LinkCount> count(const std::string& where, const std::string& device) {
  const auto text = run({"tc", "-n", where, "-s", "-j", "qdisc", "show", "dev", device, "root"});
  if (!text) return tl::unexpected(text.error());
  const auto list = nlohmann::json::parse(*text, nullptr, false);
  if (!list.is_array() || list.empty() || !list[0].contains("bytes")) {
    return fail(ErrorCode::invalid_argument, fmt::format("tc shows no queue on {} in {}", device, where));
  }
  return LinkCount{list[0]["bytes"].get<std::uint64_t>(), list[0]["packets"].get<std::uint64_t>(),
                   list[0]["drops"].get<std::uint64_t>()};
}

// Several clusters may live in one process.
std::string next_prefix() {
  static unsigned made = 0;
  const std::string number = made == 0 ? "" : std::to_string(made) + "-";
  ++made;
  return fmt::format("{}{}-", kPrefix, getpid()) + number;
}

}  // namespace

Cluster::Cluster(Plan plan) : plan_(std::move(plan)), prefix_(next_prefix()) {}

Cluster::Cluster(Cluster&& other) noexcept
    : plan_(std::move(other.plan_)),
      prefix_(std::move(other.prefix_)),
      owner_(std::exchange(other.owner_, false)) {}

Cluster::~Cluster() {
  if (!owner_) return;
  // Interfaces go with their namespaces.
  for (unsigned h = 0; h < plan_.hosts; ++h)
    static_cast<void>(run({"ip", "netns", "del", host_namespace(h)}));
  static_cast<void>(run({"ip", "netns", "del", switch_namespace()}));
}

Expected<Cluster> Cluster::create(const Plan& plan) {
  if (geteuid() != 0) {
    return fail(ErrorCode::invalid_argument,
                "a lab makes network namespaces: run it as root (sudo passing lab run ...)");
  }
  remove_leftovers();
  Cluster cluster(plan);
  if (auto built = cluster.build(); !built) return tl::unexpected(built.error());
  return cluster;
}

Expected<void> Cluster::build() {
  const std::string sw = switch_namespace();
  std::string links;
  links += fmt::format("netns add {}\n", sw);
  for (unsigned h = 0; h < plan_.hosts; ++h) links += fmt::format("netns add {}\n", host_namespace(h));
  for (unsigned h = 0; h < plan_.hosts; ++h) {
    links += fmt::format("link add port{} mtu {} netns {} type veth peer name eth0 mtu {} netns {}\n", h,
                         plan_.mtu, sw, plan_.mtu, host_namespace(h));
  }
  if (auto made = run({"ip", "-batch", "-"}, links); !made) return tl::unexpected(made.error());

  // IPv6 needs 1280 bytes.
  const auto six = [&](const std::string& address, const char* device) {
    return plan_.mtu < 1280 ? std::string() : fmt::format("addr add {}/64 dev {} nodad\n", address, device);
  };
  std::string inside = fmt::format("link set lo up\nlink add br0 mtu {} type bridge\n", plan_.mtu);
  for (unsigned h = 0; h < plan_.hosts; ++h)
    inside += fmt::format("link set port{} master br0\nlink set port{} up\n", h, h);
  inside += fmt::format("addr add {}/16 dev br0\n{}link set br0 up\n", switch_ip(), six("fd77::1", "br0"));
  if (auto made = run({"ip", "-n", sw, "-batch", "-"}, inside); !made) return tl::unexpected(made.error());
  for (unsigned h = 0; h < plan_.hosts; ++h) {
    const std::string host = fmt::format("link set lo up\naddr add {}/16 dev eth0\n{}link set eth0 up\n",
                                         host_ip(h), six(fmt::format("fd77::{:x}", h + 2), "eth0"));
    if (auto made = run({"ip", "-n", host_namespace(h), "-batch", "-"}, host); !made)
      return tl::unexpected(made.error());
    for (const auto& [where, device] :
         {std::pair{host_namespace(h), std::string("eth0")}, {sw, fmt::format("port{}", h)}}) {
      const auto made = run({"tc", "-n", where, "-batch", "-"},
                            fmt::format("qdisc add dev {} root {}\n", device, queue(plan_.rate)));
      if (!made) return tl::unexpected(made.error());
    }
  }
  return impair();
}

// Loss and duplicates by nftables, since this kernel has no netem. Per packet: trains are cut up before
// they reach the wire, or a whole one would be lost at once.
Expected<void> Cluster::impair() {
  if (plan_.loss == 0 && plan_.duplication == 0 && plan_.reordering == 0) return {};
  const std::string sw = switch_namespace();
  for (unsigned h = 0; h <= plan_.hosts; ++h) {
    const bool host = h < plan_.hosts;
    const std::string where = host ? host_namespace(h) : sw;
    std::vector<std::string> devices = {"eth0"};
    if (!host) {
      devices = {"br0"};
      for (unsigned p = 0; p < plan_.hosts; ++p) devices.push_back(fmt::format("port{}", p));
    }
    for (const std::string& device : devices) {
      const auto cut =
          run({"ip", "netns", "exec", where, "ethtool", "-K", device, "tx-udp-segmentation", "off"});
      if (!cut) return tl::unexpected(cut.error());
    }
    std::string rules = "table ip lab {\n  chain in {\n    type filter hook input priority 0;\n";
    if (plan_.loss > 0) {
      rules += fmt::format("    udp length > 30 numgen random mod 10000 < {:.0f} drop\n", 100 * plan_.loss);
    }
    rules += "  }\n  chain out {\n    type filter hook output priority 0;\n";
    if (plan_.duplication > 0) {
      // A duplicate goes where the packet went.
      std::vector<std::string> peers = {switch_ip()};
      if (!host) {
        peers.clear();
        for (unsigned p = 0; p < plan_.hosts; ++p) peers.push_back(host_ip(p));
      }
      for (const std::string& peer : peers) {
        rules += fmt::format(
            "    ip daddr {} udp length > 30 numgen random mod 10000 < {:.0f} dup to {} device {}\n", peer,
            100 * plan_.duplication, peer, devices[0]);
      }
    }
    rules += "  }\n}\n";
    if (const auto made = run({"ip", "netns", "exec", where, "nft", "-f", "-"}, rules); !made)
      return tl::unexpected(made.error());
    if (host && plan_.reordering > 0) {
      if (auto made = reorder(where, "eth0"); !made) return made;
    }
  }
  return {};
}

// Some packets take a slower class of the queue and are overtaken by later ones.
Expected<void> Cluster::reorder(const std::string& where, const std::string& device) {
  const std::string rate = plan_.rate == "none" ? "10gbit" : plan_.rate;
  const std::string queues = fmt::format(
      "qdisc replace dev {0} root handle 1: htb default 10\n"
      "class add dev {0} parent 1: classid 1:10 htb rate {1} burst 128kb\n"
      "class add dev {0} parent 1: classid 1:20 htb rate 20mbit burst 2kb\n",
      device, rate);
  if (auto made = run({"tc", "-n", where, "-batch", "-"}, queues); !made) return tl::unexpected(made.error());
  const std::string rules = fmt::format(
      "table ip late {{\n  chain out {{\n    type filter hook output priority 0;\n"
      "    udp length > 30 numgen random mod 10000 < {:.0f} meta priority set 1:20\n  }}\n}}\n",
      100 * plan_.reordering);
  if (auto made = run({"ip", "netns", "exec", where, "nft", "-f", "-"}, rules); !made)
    return tl::unexpected(made.error());
  return {};
}

Expected<std::vector<Link>> Cluster::links() const {
  std::vector<Link> links;
  for (unsigned h = 0; h < plan_.hosts; ++h) {
    const auto up = count(host_namespace(h), "eth0");
    const auto down = count(switch_namespace(), fmt::format("port{}", h));
    if (!up) return tl::unexpected(up.error());
    if (!down) return tl::unexpected(down.error());
    links.push_back({h, *up, *down});
  }
  return links;
}

bool Cluster::enter(const std::string& name, const std::string& host_name) {
  const int descriptor = open(fmt::format("{}/{}", kNamespaces, name).c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = descriptor >= 0 && setns(descriptor, CLONE_NEWNET) == 0;
  if (descriptor >= 0) close(descriptor);
  return entered && unshare(CLONE_NEWUTS) == 0 && sethostname(host_name.c_str(), host_name.size()) == 0;
}

void Cluster::remove_leftovers() {
  std::error_code ignored;
  std::set<std::string> stale;
  for (const auto& entry : std::filesystem::directory_iterator(kNamespaces, ignored)) {
    const std::string name = entry.path().filename();
    if (name.rfind(kPrefix, 0) != 0) continue;
    const auto owner = static_cast<pid_t>(std::atol(name.c_str() + std::string(kPrefix).size()));
    if (owner > 0 && kill(owner, 0) != 0 && errno == ESRCH) stale.insert(name);
  }
  for (const std::string& name : stale) remove(name);
}

}  // namespace passing::lab
