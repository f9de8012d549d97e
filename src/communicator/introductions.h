// What follows from all that ranks gave at the rendezvous.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "communicator/messages.h"
#include "inhost/place.h"
#include "strategy/hosts.h"

namespace passing {

/// Reads them, and compares each with this rank's own: all must be able to form one group.
Expected<std::vector<Introduction>> check_introductions(const Introduction& own,
                                                        const std::vector<std::string>& blobs);

/// In Gbit/s, of those that know theirs.
double slowest_link(const std::vector<Introduction>& all);

/// All hosts, and this rank's place in them.
Expected<strategy::Hosts> hosts_of(const std::vector<inhost::Place>& places, std::uint32_t rank);

/// All racks, and the place of this rank's host in them. Ranks of a host are in the same.
Expected<strategy::Racks> racks_of(const strategy::Hosts& hosts, const std::vector<Introduction>& all);

}  // namespace passing
