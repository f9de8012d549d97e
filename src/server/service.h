// A parameter server's work for one group of ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "net/mesh.h"
#include "strategy/context.h"
#include "strategy/task.h"

namespace passing::server {

/// Sums the server's range of keys of every tensor that the ranks push, on a thread of its own. What goes
/// wrong is the ranks' business: they notice, and leave.
class Service {
 public:
  struct Group {
    std::uint32_t size = 0;
    std::uint32_t index = 0;              ///< of this server,
    std::uint32_t of = 1;                 ///< of so many
    std::vector<std::uint32_t> children;  ///< ranks that push, ascending
  };

  /// `log` is called from the thread.
  static Expected<std::unique_ptr<Service>> start(std::unique_ptr<net::Mesh> mesh, Group group,
                                                  std::function<void(const std::string&)> log);
  /// Drops what is under way.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

 private:
  struct Sum {
    strategy::Call call;
    std::unique_ptr<strategy::Context> context;
    strategy::Task task;
  };

  Service(std::unique_ptr<net::Mesh> mesh, Group group, std::function<void(const std::string&)> log);
  void run();
  void take_calls();
  void begin(strategy::Call call);

  const Group group_;
  std::function<void(const std::string&)> log_;
  strategy::Ground ground_;
  std::unique_ptr<net::Mesh> mesh_;
  std::list<std::unique_ptr<Sum>> sums_;
  bool warned_ = false;      // that connections wait
  std::uint64_t begun_ = 0;  // one more than the number of the last call
  int wake_ = -1;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace passing::server
