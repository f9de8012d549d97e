#include "cluster.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "names.h"
#include "process.h"
#include "shell.h"

namespace passing::lab {
namespace {

constexpr const char* kPrefix = "passing-";  // then the process, then the place: passing-123-h0

// A lab that stays is known by its name. No name has a point.
std::string lasting_prefix(const std::string& name) { return fmt::format("{}lab.{}.", kPrefix, name); }

// Several clusters may live in one process.
std::string next_number() {
  static unsigned made = 0;
  const std::string number = made == 0 ? "" : "-" + std::to_string(made);
  ++made;
  return std::to_string(getpid()) + number;
}

bool gone(pid_t process) { return kill(process, 0) != 0 && errno == ESRCH; }

// Ends what still runs in namespaces of ours, then removes them; interfaces go with them.
void remove_namespaces(const std::vector<std::string>& list, const std::string& prefix = "") {
  if (list.empty()) return;
  end_processes(list, prefix);
  std::string lines;
  for (const std::string& name : list) lines += fmt::format("netns del {}\n", name);
  static_cast<void>(run({"ip", "-force", "-batch", "-"}, lines));
}

std::vector<std::string> namespaces_with(const std::function<bool(const std::string&)>& wanted) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(kNamespaces, ignored)) {
    if (const std::string name = entry.path().filename(); wanted(name)) found.push_back(name);
  }
  return found;
}

}  // namespace

Cluster::Cluster(State state, bool owner)
    : state_(std::move(state)), map_(state_.plan, state_.prefix), owner_(owner) {}

Cluster::Cluster(Cluster&& other) noexcept
    : state_(std::move(other.state_)),
      map_(std::move(other.map_)),
      owner_(std::exchange(other.owner_, false)) {}

Cluster::~Cluster() {
  if (owner_) remove();
}

Expected<Cluster> Cluster::create(State wanted, Life life) {
  if (geteuid() != 0) {
    return fail(ErrorCode::invalid_argument,
                "a lab makes network namespaces: run it as root (sudo passing lab ...)");
  }
  remove_leftovers();
  const std::string number = next_number();
  if (wanted.name.empty()) wanted.name = "run-" + number;
  wanted.prefix =
      life == Life::until_removed ? lasting_prefix(wanted.name) : fmt::format("{}{}-", kPrefix, number);
  wanted.owner = getpid();  // until it is kept
  wanted.links = initial(Map(wanted.plan, wanted.prefix));
  if (auto claimed = claim(wanted); !claimed) return tl::unexpected(claimed.error());
  Cluster cluster(std::move(wanted), true);
  if (auto named = write_names(cluster.state()); !named) return tl::unexpected(named.error());
  if (auto built = cluster.build(); !built) return tl::unexpected(built.error());
  return cluster;
}

Expected<Cluster> Cluster::open(const std::string& name) {
  if (geteuid() != 0) {
    return fail(
        ErrorCode::invalid_argument,
        "labs that stay are root's: run it as root (sudo passing lab ...); without root, only `passing "
        "lab run` and `passing lab demo` work");
  }
  remove_leftovers();
  const auto chosen = choose(name);
  if (!chosen) return tl::unexpected(chosen.error());
  auto state = load(*chosen);
  if (!state) return tl::unexpected(state.error());
  return Cluster(std::move(*state), false);
}

Expected<void> Cluster::build() {
  const Plan& plan = map_.plan();
  const auto wires = map_.wires();
  std::string links;
  for (const std::string& name : map_.namespaces()) links += fmt::format("netns add {}\n", name);
  for (const Wire& wire : wires) {
    links +=
        fmt::format("link add {} mtu {} netns {} type veth peer name {} mtu {} netns {}\n", wire.upper.device,
                    plan.mtu, wire.upper.where, wire.lower.device, plan.mtu, wire.lower.where);
  }
  if (auto made = run({"ip", "-batch", "-"}, links); !made) return tl::unexpected(made.error());

  // IPv6 needs 1280 bytes.
  const auto addresses = [&](const std::string& four, unsigned six, const char* device) {
    return fmt::format("addr add {}/16 dev {}\n", four, device) +
           (plan.mtu < 1280 ? "" : fmt::format("addr add fd77::{:x}/64 dev {} nodad\n", six, device));
  };
  // In every namespace but the hosts' a bridge joins what ends there; the switch has an address on its own.
  for (const std::string& name : map_.namespaces()) {
    std::string inside = "link set lo up\n";
    bool bridge = false;
    for (const Wire& wire : wires) {
      if (wire.kind != LinkKind::rack && wire.lower.where == name) {
        inside += addresses(Map::host_ip(wire.index), wire.index + 2, "eth0") + "link set eth0 up\n";
        continue;
      }
      const bool above = wire.upper.where == name;
      if (!above && wire.lower.where != name) continue;
      if (!std::exchange(bridge, true)) {
        // The switch's hardware address is fixed: it would follow that of ports which faults add, and hosts
        // would look for it under the old one.
        inside += fmt::format("link add br0 {}mtu {} type bridge\n",
                              name == map_.switch_namespace() ? "address 02:77:00:00:00:01 " : "", plan.mtu);
      }
      inside +=
          fmt::format("link set {0} master br0\nlink set {0} up\n", (above ? wire.upper : wire.lower).device);
    }
    if (name == map_.switch_namespace()) inside += addresses(Map::switch_ip(), 1, "br0");
    if (bridge) inside += "link set br0 up\n";
    if (auto made = run({"ip", "-n", name, "-batch", "-"}, inside); !made)
      return tl::unexpected(made.error());
  }
  for (const Wire& wire : wires) {
    if (auto made = shape(wire); !made) return made;
  }
  if (!plan.in_trains()) {
    // Single packets come up; and XDP hands frames only to an end that polls for them.
    for (const Wire& wire : wires) {
      auto made = run({"ip", "netns", "exec", wire.lower.where, "ethtool", "-K", wire.lower.device,
                       "tx-udp-segmentation", "off", "gro", "on"});
      if (!made) return tl::unexpected(made.error());
    }
  }
  if (!plan.impairment.any()) return {};
  return change([&](LinkStates& states) -> Expected<void> {
    for (auto& [name, link] : states) link.impairment = plan.impairment;
    return {};
  });
}

Expected<void> Cluster::change(const std::function<Expected<void>(LinkStates&)>& edit) {
  const Lock lock(state_.name);
  auto state = load(state_.name);
  if (!state) return tl::unexpected(state.error());
  LinkStates wanted = state->links;
  if (auto edited = edit(wanted); !edited) return edited;
  if (auto changed = lab::change(map_, state->links, wanted); !changed) return changed;
  state_.links = state->links = std::move(wanted);
  return save(*state);
}

Expected<void> Cluster::keep() {
  const Lock lock(state_.name);
  state_.owner = 0;
  if (auto saved = save(state_); !saved) return saved;
  owner_ = false;
  return {};
}

bool Cluster::exists() const {
  const auto list = map_.namespaces();
  return std::all_of(list.begin(), list.end(), [](const std::string& name) {
    return std::filesystem::exists(std::filesystem::path(kNamespaces) / name);
  });
}

void Cluster::remove() {
  remove_namespaces(map_.namespaces(), state_.prefix);
  forget(state_.name);
  owner_ = false;
}

void Cluster::remove_leftovers() {
  for (const std::string& name : names()) {
    const auto state = load(name);
    if (state && state->owner > 0 && gone(state->owner)) Cluster(*state, false).remove();
  }
  // And of those that had no name.
  remove_namespaces(namespaces_with([](const std::string& name) {
    if (!name.starts_with(kPrefix)) return false;
    const auto owner = static_cast<pid_t>(std::atol(name.c_str() + std::string(kPrefix).size()));
    return owner > 0 && gone(owner);
  }));
}

void Cluster::remove_remains(const std::string& name) {
  remove_namespaces(
      namespaces_with([&](const std::string& each) { return each.starts_with(lasting_prefix(name)); }));
  forget(name);
}

}  // namespace passing::lab
