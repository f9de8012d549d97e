#include "links.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shell.h"

namespace passing::lab {
namespace {

// Settings found by measurement: a burst below a super-packet collapses everyone, a small limit
// stops progress. The count of an unshaped link needs a queue too.
std::string queue(const std::string& rate) {
  return rate == "none" ? "pfifo limit 20000" : fmt::format("tbf rate {} burst 128kb limit 1mb", rate);
}

Expected<LinkCount> count(const End& end) {
  const auto text = run({"tc", "-n", end.where, "-s", "-j", "qdisc", "show", "dev", end.device, "root"});
  if (!text) return tl::unexpected(text.error());
  const auto list = nlohmann::json::parse(*text, nullptr, false);
  if (!list.is_array() || list.empty() || !list[0].contains("bytes")) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("tc shows no queue on {} in {}", end.device, end.where));
  }
  return LinkCount{list[0]["bytes"].get<std::uint64_t>(), list[0]["packets"].get<std::uint64_t>(),
                   list[0]["drops"].get<std::uint64_t>()};
}

Expected<void> done(const Expected<std::string>& ran) {
  if (!ran) return tl::unexpected(ran.error());
  return {};
}

Expected<void> in(const std::string& where, std::vector<std::string> command, const std::string& input = "") {
  command.insert(command.begin(), {"ip", "netns", "exec", where});
  return done(run(command, input));
}

Expected<void> set_rate(const Wire& wire, const std::string& rate) {
  for (const End& end : {wire.lower, wire.down}) {
    const auto changed = run({"tc", "-n", end.where, "-batch", "-"},
                             fmt::format("qdisc change dev {} root {}\n", end.device, queue(rate)));
    if (!changed) return tl::unexpected(changed.error());
  }
  return {};
}

// Trains of segments are cut up by who sends them, or a rule would lose or repeat a whole train at once.
// Everywhere, since one link's train arrives at the next.
// A switch in the kernel never takes trains: what comes up stays cut.
Expected<void> trains(const Map& map, bool on) {
  if (on && !map.plan().in_trains()) return {};
  std::vector<End> devices = {{map.switch_namespace(), "br0"}};
  for (const Wire& wire : map.wires()) devices.insert(devices.end(), {wire.lower, wire.upper});
  const std::string wanted = on ? "on" : "off";
  for (const End& end : devices) {
    auto made = in(end.where, {"ethtool", "-K", end.device, "tx-udp-segmentation", wanted, "tso", wanted});
    if (!made) return made;
  }
  return {};
}

// Two ways from a namespace's bridge back into it: packets that are to come twice take one, packets that are
// to come late the other, a slow one. They learn no addresses, so that nothing else takes them.
Expected<void> make_detours(const std::string& where, int mtu) {
  if (run({"ip", "-n", where, "link", "show", "late"})) return {};
  std::string links;
  for (const char* name : {"twin", "late"}) {
    links += fmt::format(
        "link add {0} mtu {1} type veth peer name {0}-in mtu {1}\n"
        "link set {0} addrgenmode none\nlink set {0}-in addrgenmode none\nlink set {0}-in master br0\n"
        "link set {0}-in type bridge_slave learning off flood off mcast_flood off bcast_flood off\n"
        "link set {0} up\nlink set {0}-in up\n",
        name, mtu);
  }
  if (auto made = run({"ip", "-n", where, "-batch", "-"}, links); !made) return tl::unexpected(made.error());
  return done(run({"tc", "-n", where, "qdisc", "add", "dev", "late", "root", "tbf", "rate", "100mbit",
                   "burst", "16kb", "limit", "4mb"}));
}

// By nftables, since not every kernel has netem. All at the upper end, which is a port of a bridge: what
// comes up has crossed the link, what goes down has not. What was sent down twice or late passes the rules
// again, and is known by its mark then.
std::string rules(const std::string& device, const Impairment& impairment) {
  const auto some = [](double percent, const std::string& what) {
    return percent > 0
               ? fmt::format("    meta protocol {{ ip, ip6 }} numgen random mod 1000000 < {:.0f} {}\n",
                             10'000 * percent, what)
               : std::string();
  };
  return fmt::format(
      "table netdev {0} {{\n"
      "  chain up {{\n    type filter hook ingress device \"{0}\" priority 0;\n{1}{2}{3}  }}\n"
      "  chain down {{\n    type filter hook egress device \"{0}\" priority 0;\n    meta mark 77 accept\n"
      "{1}{4}{5}  }}\n}}\n",
      device, some(impairment.loss, "drop"), some(impairment.duplication, "dup to \"twin\""),
      some(impairment.reordering, "fwd to \"late\""),
      some(impairment.duplication, fmt::format("meta mark set 77 dup to \"{}\"", device)),
      some(impairment.reordering, "meta mark set 77 fwd to \"late\""));
}

// A switch in the kernel takes packets before the rules of its ports see them: these are at the lower end.
Expected<void> lose(const Wire& wire, double percent) {
  const std::string& device = wire.lower.device;
  const std::string old = fmt::format("table netdev {0} {{\n}}\ndelete table netdev {0}\n", device);
  const std::string drop = fmt::format(
      "    meta protocol {{ ip, ip6 }} numgen random mod 1000000 < {:.0f} drop\n", 10'000 * percent);
  const std::string now = fmt::format(
      "table netdev {0} {{\n"
      "  chain up {{\n    type filter hook egress device \"{0}\" priority 0;\n{1}  }}\n"
      "  chain down {{\n    type filter hook ingress device \"{0}\" priority 0;\n{1}  }}\n}}\n",
      device, drop);
  return in(wire.lower.where, {"nft", "-f", "-"}, percent > 0 ? old + now : old);
}

Expected<void> impair(const Map& map, const Wire& wire, const Impairment& impairment) {
  const int mtu = map.plan().mtu;
  if (map.plan().in_kernel() && wire.upper.where == map.switch_namespace()) {
    if (impairment.duplication == 0 && impairment.reordering == 0) return lose(wire, impairment.loss);
    return fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "{}: before a switch in the kernel a link can lose packets, but not repeat or reorder them; "
            "use --dataplane userspace",
            wire.name));
  }
  const std::string& where = wire.upper.where;
  const std::string& device = wire.upper.device;
  if (impairment.any()) {
    if (auto made = make_detours(where, mtu); !made) return made;
  }
  // An empty table can be deleted whether it was there or not: all in one transaction.
  const std::string old = fmt::format("table netdev {0} {{\n}}\ndelete table netdev {0}\n", device);
  return in(where, {"nft", "-f", "-"}, old + (impairment.any() ? rules(device, impairment) : ""));
}

// What arrives at the lower end goes through a device of its own, which has a queue.
Expected<void> divert_arrivals(const Wire& wire) {
  const std::string& where = wire.down.where;
  auto made = run({"ip", "-n", where, "-batch", "-"},
                  fmt::format("link add {0} type ifb\nlink set {0} mtu 9000 up\n", wire.down.device));
  if (!made) return tl::unexpected(made.error());
  return done(
      run({"tc", "-n", where, "-batch", "-"},
          fmt::format("qdisc add dev {0} ingress\n"
                      "filter add dev {0} parent ffff: protocol all u32 match u32 0 0 action mirred egress "
                      "redirect dev {1}\n",
                      wire.lower.device, wire.down.device)));
}

bool any_impaired(const LinkStates& states) {
  return std::any_of(states.begin(), states.end(),
                     [](const auto& each) { return each.second.impairment.any(); });
}

bool same(const Impairment& a, const Impairment& b) {
  return a.loss == b.loss && a.duplication == b.duplication && a.reordering == b.reordering;
}

}  // namespace

LinkStates initial(const Map& map) {
  LinkStates states;
  for (const Wire& wire : map.wires()) states[wire.name] = {.rate = wire.rate, .impairment = {}};
  return states;
}

Expected<void> shape(const Wire& wire) {
  if (wire.down.device != wire.upper.device) {
    if (auto made = divert_arrivals(wire); !made) return made;
  }
  for (const End& end : {wire.lower, wire.down}) {
    const auto made = run({"tc", "-n", end.where, "-batch", "-"},
                          fmt::format("qdisc add dev {} root {}\n", end.device, queue(wire.rate)));
    if (!made) return tl::unexpected(made.error());
  }
  return {};
}

Expected<std::vector<Link>> count(const Map& map) {
  std::vector<Link> links;
  for (const Wire& wire : map.wires()) {
    const auto up = count(wire.lower);
    const auto down = count(wire.down);
    if (!up) return tl::unexpected(up.error());
    if (!down) return tl::unexpected(down.error());
    links.push_back({wire.name, wire.kind, wire.index, *up, *down});
  }
  return links;
}

Expected<void> change(const Map& map, const LinkStates& now, const LinkStates& wanted) {
  if (any_impaired(now) != any_impaired(wanted)) {
    if (auto made = trains(map, !any_impaired(wanted)); !made) return made;
  }
  for (const Wire& wire : map.wires()) {
    const LinkState& old = now.at(wire.name);
    const LinkState& next = wanted.at(wire.name);
    if (!same(old.impairment, next.impairment)) {
      if (auto made = impair(map, wire, next.impairment); !made) return made;
    }
    if (old.rate != next.rate) {
      if (auto made = set_rate(wire, next.rate); !made) return made;
    }
    if (old.down == next.down) continue;
    // The upper end: the host keeps its addresses, and sees that there is no carrier.
    const auto made =
        run({"ip", "-n", wire.upper.where, "link", "set", wire.upper.device, next.down ? "down" : "up"});
    if (!made) return tl::unexpected(made.error());
  }
  return {};
}

}  // namespace passing::lab
