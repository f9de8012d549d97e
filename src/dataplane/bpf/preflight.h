// What a machine lacks for a switch in its kernel, and the command that mends it.
#pragma once

#include <string>
#include <vector>

#include "dataplane/bpf/bpf.h"

namespace passing::dataplane {

struct Finding {
  bool fatal = true;  ///< else it works, but worse than it could, or maybe not
  std::string what;
  std::string remedy;  ///< a command, or what to do
};

/// Looks without changing anything. `mtu` is that of the paths to members.
std::vector<Finding> preflight(const BpfDataplane::Options& options, int mtu);

}  // namespace passing::dataplane
