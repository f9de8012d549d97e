// What is behind a communicator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/operation.h"
#include "communicator/shared_heap.h"
#include "communicator/turns.h"
#include "passing/config.h"
#include "strategy/plan.h"

namespace passing {

/// Created and destroyed by any thread. Others talk to its mailbox; Turns decides which thread does the work,
/// and Core does it.
class Engine {
 public:
  static Expected<std::unique_ptr<Engine>> create(Config config);

  const Config& config() const { return config_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  int process() const { return process_; }
  /// Of the host, or its name.
  const std::string& host_name() const { return host_name_; }

  /// Of the strategy auto.
  const std::optional<strategy::Plan>& plan() const { return plan_; }
  std::uint32_t hosts() const { return plan_ ? static_cast<std::uint32_t>(plan_->hosts) : 0; }

  /// Strangers at this rank's two doors, by what ended them: docs/mesh.md. Of any thread.
  Strangers strangers() const { return turns_->strangers(); }

  /// Of any thread: docs/communicator.md.
  Expected<void*> allocate(std::size_t bytes) { return heap_.allocate(bytes); }
  Expected<void> free(void* data) { return heap_.free(data); }

 private:
  Engine() = default;

  // Copies of what the group has: nobody changes it after the beginning, so any thread may read it.
  Config config_;
  std::vector<std::string> names_;
  std::string host_name_;
  std::optional<strategy::Plan> plan_;
  int process_ = 0;

  SharedHeap heap_;
  std::shared_ptr<Mailbox> mailbox_;
  std::unique_ptr<Turns>
      turns_;  // leaves the group when it goes; what has not ended fails, here and everywhere
};

}  // namespace passing
