#include "inhost/placement.h"

#include <hwloc.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <memory>

namespace passing::inhost {
namespace {

constexpr std::size_t kMostNodes = 1024;  // of kernels

/// Their numbers are a list of ranges: "0", "0-1", "0,8".
bool several_nodes_have_cores() {
  std::ifstream file("/sys/devices/system/node/has_cpu");
  std::string list;
  return std::getline(file, list) && list.find_first_of(",-") != std::string::npos;
}

/// Where a processor's memory comes from by default. Memory that has no cores of its own (high-bandwidth,
/// behind CXL, of GPUs) is farther up in the tree, or comes after the ordinary.
hwloc_obj_t home_of(hwloc_obj_t processor) {
  hwloc_obj_t at = processor;
  while (at != nullptr && at->memory_first_child == nullptr) at = at->parent;
  // A cache of memory has its node as a child.
  while (at != nullptr && at->type != HWLOC_OBJ_NUMANODE) at = at->memory_first_child;
  return at;
}

/// The machine, or what is described.
std::vector<Node> discover(const char* synthetic) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {};
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(made,
                                                                                    hwloc_topology_destroy);
  // Ranks may be confined differently: the first decides for all of them. And hwloc looks at some processors
  // by moving the thread to each, but this thread is the user's.
  constexpr unsigned long kFlags =
      HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
  if (hwloc_topology_set_flags(made, kFlags) != 0) return {};
  if (synthetic != nullptr && hwloc_topology_set_synthetic(made, synthetic) != 0) return {};
  if (hwloc_topology_load(made) != 0) return {};
  // Its environment variables can give it another machine.
  if (synthetic == nullptr && hwloc_topology_is_thissystem(made) == 0) return {};

  std::vector<Node> nodes;
  hwloc_obj_t processor = nullptr;
  while ((processor = hwloc_get_next_obj_by_type(made, HWLOC_OBJ_PU, processor)) != nullptr) {
    const hwloc_obj_t home = home_of(processor);
    if (home == nullptr || processor->os_index >= CPU_SETSIZE) continue;
    auto node = std::find_if(nodes.begin(), nodes.end(),
                             [&](const Node& each) { return each.number == home->os_index; });
    if (node == nodes.end()) node = nodes.insert(node, {.number = home->os_index});
    CPU_SET(processor->os_index, &node->cores);
  }
  return nodes;
}

cpu_set_t both(const cpu_set_t& a, const cpu_set_t& b) {
  cpu_set_t result;
  CPU_AND(&result, &a, &b);
  return result;
}

/// Ranks with the same cores, in order.
void deal(const std::vector<Node>& nodes, const cpu_set_t& allowed, const std::vector<Placement*>& ranks) {
  struct Share {
    const Node* node = nullptr;
    cpu_set_t cores{};
    int size = 0;
    int ranks = 0;
  };
  std::vector<Share> shares;
  for (const Node& node : nodes) {
    const cpu_set_t cores = both(allowed, node.cores);
    if (const int size = CPU_COUNT(&cores); size > 0) shares.push_back({&node, cores, size});
  }
  if (shares.empty()) return;
  // Each goes where most cores are left for it; of equals, the first.
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto& most = *std::max_element(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
      return a.size * (b.ranks + 1) < b.size * (a.ranks + 1);
    });
    ++most.ranks;
  }
  // Ranks in a row stay together: launchers number devices so, node by node.
  auto rank = ranks.begin();
  for (const Share& share : shares) {
    for (int i = 0; i < share.ranks; ++i, ++rank) {
      (*rank)->node = static_cast<std::int32_t>(share.node->number);
      (*rank)->cores = share.cores;
    }
  }
}

}  // namespace

std::vector<Node> nodes_of_machine() {
  if (!several_nodes_have_cores()) return {};
  return discover(nullptr);
}

std::vector<Node> nodes_of_synthetic(const std::string& description) { return discover(description.c_str()); }

std::vector<Placement> place_ranks(const std::vector<Node>& nodes, const std::vector<cpu_set_t>& allowed) {
  std::vector<Placement> placements(allowed.size());
  if (nodes.size() < 2 || allowed.size() < 2) return placements;
  std::vector<bool> dealt(allowed.size());
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (dealt[i]) continue;
    std::vector<Placement*> same;
    for (std::size_t j = i; j < allowed.size(); ++j) {
      if (!CPU_EQUAL(&allowed[j], &allowed[i])) continue;
      dealt[j] = true;
      same.push_back(&placements[j]);
    }
    deal(nodes, allowed[i], same);
  }
  return placements;
}

// By the system call: only the rank that decides has a topology, which hwloc would need.
void bind_memory(Placement& placement, std::byte* data, std::size_t bytes) {
  if (placement.node < 0) return;
  constexpr std::size_t kBits = CHAR_BIT * sizeof(unsigned long);
  unsigned long mask[kMostNodes / kBits] = {};
  const auto node = static_cast<std::size_t>(placement.node);
  if (node < kMostNodes) mask[node / kBits] = 1UL << node % kBits;
  // The kernel does not look at the last bit.
  if (node >= kMostNodes || ::syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, mask, kMostNodes + 1, 0) != 0)
    ++placement.refused;
}

void bind_thread(Placement& placement) {
  if (CPU_COUNT(&placement.cores) == 0) return;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    cores = both(cores, placement.cores);
    if (CPU_COUNT(&cores) > 0 && sched_setaffinity(0, sizeof cores, &cores) == 0) return;
  }
  ++placement.refused;
}

}  // namespace passing::inhost
