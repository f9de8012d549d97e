// A cluster out of network namespaces: hosts in racks, with links into switches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "links.h"
#include "plan.h"
#include "state.h"

namespace passing::lab {

/// Namespaces that exist as long as this object, or, once kept, until they are removed. Those of a lab whose
/// process is gone are removed by the next one.
class Cluster {
 public:
  enum class Life { of_process, until_removed };

  /// Makes one. Of `wanted`, the name (empty: one by our process), the plan, and what others are to know
  /// count. Needs root: see privilege.h.
  static Expected<Cluster> create(State wanted, Life life = Life::of_process);
  /// One that there is, by its name; it stays. Without a name, the only one.
  static Expected<Cluster> open(const std::string& name);
  Cluster(Cluster&& other) noexcept;
  Cluster& operator=(Cluster&&) = delete;
  ~Cluster();

  const State& state() const { return state_; }
  const Map& map() const { return map_; }
  const Plan& plan() const { return map_.plan(); }
  std::string switch_namespace() const { return map_.switch_namespace(); }
  std::string host_namespace(unsigned host) const { return map_.host_namespace(host); }

  Expected<std::vector<Link>> links() const { return count(map_); }
  /// Changes links; others wait meanwhile.
  Expected<void> change(const std::function<Expected<void>(LinkStates&)>& edit);

  /// It outlives this process.
  Expected<void> keep();
  /// Whether its namespaces are there: they may have been removed by others.
  bool exists() const;
  /// Ends what runs in it and removes it now.
  void remove();

  /// Removes labs whose process has gone.
  static void remove_leftovers();
  /// Removes whatever there is of a lab whose state cannot be read.
  static void remove_remains(const std::string& name);

 private:
  Cluster(State state, bool owner);
  Expected<void> build();

  State state_;
  Map map_;
  bool owner_;
};

}  // namespace passing::lab
