// What a lab consists of: names, addresses and links, worked out before anything is made.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace passing::lab {

/// What a link does to packets beside its rate, in both directions. In percent of them.
struct Impairment {
  double loss = 0;
  double duplication = 0;
  double reordering = 0;  ///< come late, behind others
  bool any() const { return loss > 0 || duplication > 0 || reordering > 0; }
};

/// Of a rate as tc writes it; 0: none, not shaped.
double bits_per_second(const std::string& rate);

struct Plan {
  unsigned hosts = 4;  ///< of ranks
  unsigned servers = 0;
  unsigned racks = 1;
  std::string rate = "none";  ///< of each link, each way, as tc writes it ("1gbit"); none: not shaped
  std::string spine_rate;     ///< of each rack's uplink; empty: `rate`
  int mtu = 1500;
  /// Of the switch: userspace; mmsg, the same without segmentation offload anywhere; tc or xdp in the kernel.
  std::string dataplane = "userspace";
  Impairment impairment;  ///< of every link

  /// Racks have hosts in a row, as evenly as possible.
  unsigned rack_of(unsigned host) const { return host * racks / hosts; }
  bool in_kernel() const { return dataplane == "tc" || dataplane == "xdp"; }
  /// Whether packets come up in trains that the switch takes as they are.
  bool in_trains() const { return dataplane == "userspace"; }
  const std::string& uplink_rate() const { return spine_rate.empty() ? rate : spine_rate; }
};

enum class LinkKind { host, server, rack };
const char* to_string(LinkKind kind);

/// One end of a link: a device in a namespace.
struct End {
  std::string where;
  std::string device;
};

/// A link of the lab. Traffic from the lower to the upper end goes up.
struct Wire {
  std::string name;  ///< host0, server0, rack0
  LinkKind kind = LinkKind::host;
  unsigned index = 0;  ///< of the host (servers come after those of ranks) or rack
  End lower;
  End upper;  ///< always a port of a bridge
  /// Where traffic downwards is shaped and counted: the upper end, but for XDP, which sends past the queue of
  /// a port. Then it is a device that all goes through which arrives at the lower end.
  End down;
  std::string rate;
};

/// The names in a lab. `prefix` begins the names of its namespaces.
class Map {
 public:
  Map(Plan plan, std::string prefix) : plan_(std::move(plan)), prefix_(std::move(prefix)) {}

  const Plan& plan() const { return plan_; }
  const std::string& prefix() const { return prefix_; }
  unsigned machines() const { return plan_.hosts + plan_.servers; }
  /// Where the switch of PASSING runs: the spine, or with one rack its top.
  std::string switch_namespace() const { return prefix_ + "sw"; }
  std::string host_namespace(unsigned host) const { return prefix_ + "h" + std::to_string(host); }
  std::string rack_namespace(unsigned rack) const;
  std::vector<std::string> namespaces() const;
  /// host0, or server0 beyond the hosts of ranks.
  std::string host_name(unsigned host) const;
  /// The namespace of a host, server, switch, spine or tor0; empty: there is none of that name.
  std::string find(const std::string& place) const;
  /// Hosts, servers, then racks if there are several.
  std::vector<Wire> wires() const;
  /// Ports of the switch.
  std::vector<std::string> switch_ports() const;

  static std::string switch_ip() { return "10.77.0.1"; }
  static std::string host_ip(unsigned host) { return "10.77.0." + std::to_string(host + 2); }

 private:
  Plan plan_;
  std::string prefix_;
};

}  // namespace passing::lab
