// How the ranks of a host meet: Unix sockets with names that only the rendezvous knows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "inhost/descriptor.h"
#include "inhost/place.h"
#include "inhost/placement.h"
#include "inhost/segment.h"

namespace passing::inhost {

/// The clock of deadlines: CLOCK_MONOTONIC in nanoseconds.
Time now();

/// A listening socket in the abstract namespace, so that no file is left, with a random name. Opened before
/// the rendezvous; of each host, only that of the first rank is used.
class Door {
 public:
  static Expected<Door> open();
  const std::string& name() const { return name_; }
  int descriptor() const { return socket_.get(); }

 private:
  std::string name_;
  Descriptor socket_;
};

/// One rank's wish to meet.
struct Visitor {
  std::vector<std::uint32_t> ranks;  ///< of the host, in order
  std::size_t index = 0;             ///< its own place among them
  std::vector<std::string> names;    ///< for messages, by index
  std::uint64_t group = 0;           ///< of which communicator: all that meet must say the same
  std::string leader;                ///< name of the door of the first
  Settings settings;                 ///< with slot_bytes
  std::function<std::vector<Node>()> nodes = nodes_of_machine;  ///< of the machine; a seam for tests
};

/// What everyone has afterwards.
struct Meeting {
  Segment segment;
  std::vector<Descriptor> processes;  ///< by index, a pidfd that is readable when it has died; may be missing
  std::vector<Descriptor> bells;      ///< by index, an eventfd
  std::vector<Descriptor> sockets;    ///< the first rank: to each rank; others: to the first
  Placement placement;                ///< its own
};

/// Returns when all have the shared memory, or when one of them cannot: then all get the same error.
Expected<Meeting> meet(const Door& door, const Visitor& visitor, Time deadline);

}  // namespace passing::inhost
