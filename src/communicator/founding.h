// How a communicator begins: from settings to a group whose ranks have found each other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/group.h"
#include "communicator/introductions.h"
#include "communicator/witness.h"
#include "inhost/door.h"
#include "net/desk.h"

namespace passing {

/// What comes of it.
struct Founded {
  std::unique_ptr<Group> group;
  std::unique_ptr<Witness> witness;
};

/// Used once, by the thread that creates the communicator, and gone when it has.
class Founding {
 public:
  /// Valid, with a strategy chosen.
  explicit Founding(Config config);

  Expected<Founded> found();

 private:
  Expected<void> open();
  Expected<void> meet();
  Expected<void> find_places(const std::vector<Introduction>& all);
  Expected<void> share_memory();
  Expected<void> join_hosts();
  Expected<void> make_strategy();
  Expected<void> introduce_servers(const std::vector<net::Place>& servers);
  Expected<void> agree(std::uint64_t step, const char* purpose, const Expected<void>& own);
  void pass_readiness(std::uint64_t step, std::uint32_t& round);
  bool alone() const { return group_->config.size == 1; }

  std::unique_ptr<Group> group_;
  std::unique_ptr<Witness> witness_;
  std::vector<std::string> servers_;  // as the settings name them
  Introduction own_;
  std::optional<inhost::Door> door_;  // where ranks share memory
  std::vector<inhost::Place> places_;
  std::vector<std::string> addresses_;
  std::uint64_t id_ = 0;  // of the group
  std::optional<strategy::Setup> setup_;
};

}  // namespace passing
