// Where the ranks of a host and their memory belong, if it has several NUMA nodes: docs/inhost.md section 6.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace passing::inhost {

/// A NUMA node with cores. Memory without any is nobody's.
struct Node {
  std::uint32_t number = 0;  ///< as the system has it
  cpu_set_t cores{};
};

/// Those of this machine. None, at the cost of reading one small file, if there are not several.
std::vector<Node> nodes_of_machine();
/// Those of a machine that hwloc makes up: "package:2 numanode:1 core:4 pu:1".
std::vector<Node> nodes_of_synthetic(const std::string& description);

/// Where one rank belongs. To be changed by one thread at a time.
struct Placement {
  std::int32_t node = -1;     ///< of its memory; -1: anywhere
  cpu_set_t cores{};          ///< of the library's own thread; none: anywhere
  std::uint32_t refused = 0;  ///< how often the system would not have it so
};

/// For each rank, from the cores that it may use. Whoever computes it gets the same. With one node, or one
/// rank, nobody belongs anywhere.
std::vector<Placement> place_ranks(const std::vector<Node>& nodes, const std::vector<cpu_set_t>& allowed);

/// Pages of it that do not exist yet will come from the node, as long as that has some: memory elsewhere is
/// better than none. For whole pages.
void bind_memory(Placement& placement, std::byte* data, std::size_t bytes);
/// The calling thread, which must be the library's own, stays on the cores: those of them it may use.
void bind_thread(Placement& placement);

}  // namespace passing::inhost
