// Ranks as threads of one process, with a switch if the strategy needs one.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "passing/communicator.h"

namespace passing::test {

/// Everyone gives a blob, everyone gets all, among threads.
class Table {
 public:
  explicit Table(std::uint32_t size) : blobs_(size) {}
  Exchange exchange(std::uint32_t rank);

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  std::vector<std::string> blobs_;
  std::uint32_t given_ = 0;
};

/// A switch with its controller in this process, on loopback.
class LocalSwitch {
 public:
  LocalSwitch();
  ~LocalSwitch();
  std::string controller() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Parameter servers in this process, each with its range of keys.
class LocalServers {
 public:
  explicit LocalServers(std::uint32_t count);
  ~LocalServers();
  /// For Config::servers.
  std::string addresses() const;
  /// Ends one of them.
  void drop(std::uint32_t index);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// A group of communicators, one per rank, with what the strategy needs. In the hierarchical and sharded ones
/// two ranks share a host, elsewhere each has its own.
class World {
 public:
  World(const std::string& strategy, std::uint32_t size, const std::function<void(Config&)>& change = {});

  /// Together: each waits for the others.
  ~World();

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  Communicator& at(std::uint32_t rank) { return *ranks_[rank]; }
  /// Destroys one, as its process would at its end.
  void drop(std::uint32_t rank) { ranks_[rank].reset(); }
  LocalServers& servers() { return *servers_; }
  /// Runs `body` for all ranks at the same time, each in a thread of its own.
  void run(const std::function<void(Communicator&)>& body);

 private:
  std::unique_ptr<LocalSwitch> switch_;
  std::unique_ptr<LocalServers> servers_;
  std::vector<std::optional<Communicator>> ranks_;
};

/// Runs `body(rank)` in a thread for each rank, and waits.
void parallel(std::uint32_t size, const std::function<void(std::uint32_t)>& body);

}  // namespace passing::test
