// A cluster out of network namespaces: hosts with links into a switch namespace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace passing::lab {

struct Plan {
  unsigned hosts = 4;
  std::string rate = "none";  ///< of each link, each way, as tc writes it ("1gbit"); none: not shaped
  int mtu = 1500;
  double loss = 0;         ///< percent of PASSING's packets that each receiver loses
  double duplication = 0;  ///< percent that arrive twice
  double reordering = 0;   ///< percent that a host sends late
};

/// What one direction of a host's link carried, by its queue's own count.
struct LinkCount {
  std::uint64_t bytes = 0;
  std::uint64_t packets = 0;
  std::uint64_t drops = 0;
};

struct Link {
  unsigned host = 0;
  LinkCount up;    ///< host to switch
  LinkCount down;  ///< switch to host
};

/// Namespaces that exist as long as this object. Those of a lab whose process is gone are removed
/// by the next one.
class Cluster {
 public:
  /// Needs root. Says what to do without.
  static Expected<Cluster> create(const Plan& plan);
  Cluster(Cluster&& other) noexcept;
  Cluster& operator=(Cluster&&) = delete;
  ~Cluster();

  const Plan& plan() const { return plan_; }
  const std::string& prefix() const { return prefix_; }
  std::string switch_namespace() const { return prefix_ + "sw"; }
  std::string host_namespace(unsigned host) const { return prefix_ + "h" + std::to_string(host); }
  static std::string switch_ip() { return "10.77.0.1"; }
  static std::string host_ip(unsigned host) { return "10.77.0." + std::to_string(host + 2); }

  Expected<std::vector<Link>> links() const;

  /// Moves the calling process into a namespace, with a host name of its own.
  static bool enter(const std::string& name, const std::string& host_name);
  /// Removes namespaces of labs whose process has gone.
  static void remove_leftovers();

 private:
  explicit Cluster(Plan plan);
  Expected<void> build();
  Expected<void> impair();
  Expected<void> reorder(const std::string& where, const std::string& device);

  Plan plan_;
  std::string prefix_;
  bool owner_ = true;
};

}  // namespace passing::lab
