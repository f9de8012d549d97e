#include "cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
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

}  // namespace

Cluster::Cluster(Plan plan) : plan_(std::move(plan)) {
  // Several clusters may live in one process.
  static unsigned made = 0;
  prefix_ = fmt::format("{}{}-", kPrefix, getpid()) + (made == 0 ? "" : std::to_string(made) + "-");
  ++made;
}

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

  std::string inside = fmt::format("link set lo up\nlink add br0 mtu {} type bridge\n", plan_.mtu);
  for (unsigned h = 0; h < plan_.hosts; ++h)
    inside += fmt::format("link set port{} master br0\nlink set port{} up\n", h, h);
  inside += fmt::format("addr add {}/16 dev br0\naddr add fd77::1/64 dev br0 nodad\nlink set br0 up\n",
                        switch_ip());
  if (auto made = run({"ip", "-n", sw, "-batch", "-"}, inside); !made) return tl::unexpected(made.error());
  for (unsigned h = 0; h < plan_.hosts; ++h) {
    const std::string host = fmt::format(
        "link set lo up\naddr add {}/16 dev eth0\naddr add fd77::{:x}/64 dev eth0 nodad\nlink set eth0 up\n",
        host_ip(h), h + 2);
    if (auto made = run({"ip", "-n", host_namespace(h), "-batch", "-"}, host); !made)
      return tl::unexpected(made.error());
    for (const auto& [where, device] :
         {std::pair{host_namespace(h), std::string("eth0")}, {sw, fmt::format("port{}", h)}}) {
      const auto made = run({"tc", "-n", where, "-batch", "-"},
                            fmt::format("qdisc add dev {} root {}\n", device, queue(plan_.rate)));
      if (!made) return tl::unexpected(made.error());
    }
  }
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
  for (const std::string& name : stale) static_cast<void>(run({"ip", "netns", "del", name}));
}

}  // namespace passing::lab
