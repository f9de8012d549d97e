// The links of a lab while it runs: what they carried, and what they do to packets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan.h"

namespace passing::lab {

/// What one direction of a link carried, by its queue's own count.
struct LinkCount {
  std::uint64_t bytes = 0;
  std::uint64_t packets = 0;
  std::uint64_t drops = 0;
};

struct Link {
  std::string name;
  LinkKind kind = LinkKind::host;
  unsigned index = 0;  ///< of the host (servers come after those of ranks) or rack
  LinkCount up;        ///< host to switch, or rack to spine
  LinkCount down;
};

/// What was changed of a link since it was made.
struct LinkState {
  std::string rate;
  Impairment impairment;
  bool down = false;
};
using LinkStates = std::map<std::string, LinkState>;

/// As the plan says.
LinkStates initial(const Map& map);

/// Makes queues that shape and count, at both ends.
Expected<void> shape(const Wire& wire);
Expected<std::vector<Link>> count(const Map& map);

/// Makes every link what `wanted` says; `now` says what it is. Counts go on.
Expected<void> change(const Map& map, const LinkStates& now, const LinkStates& wanted);

}  // namespace passing::lab
