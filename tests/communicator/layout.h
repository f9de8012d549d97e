// Which ranks share a host.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "communicator/world.h"

namespace passing::test {

/// A letter for the host of each rank: "aab" is two hosts, of which the first has two ranks.
using Layout = std::string;

inline std::uint32_t ranks_of(const Layout& layout) { return static_cast<std::uint32_t>(layout.size()); }

/// For World and Config: puts each rank into its host; then `change`.
inline std::function<void(Config&)> placed(Layout layout, std::function<void(Config&)> change = {}) {
  return [layout = std::move(layout), change = std::move(change)](Config& config) {
    config.host = layout[config.rank];
    if (change) change(config);
  };
}

/// Buffers of one rank: ordinary, or of allocate(). Ends before its communicator.
class Buffers {
 public:
  Buffers(Communicator& comm, bool shared) : comm_(comm), shared_(shared) {}
  ~Buffers() {
    for (void* each : taken_) {
      if (shared_) {
        EXPECT_TRUE(comm_.free(each));
      } else {
        ::operator delete(each);
      }
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  /// Null: there was no memory.
  std::byte* take(std::size_t bytes) {
    void* data = shared_ ? comm_.allocate(bytes).value_or(nullptr) : ::operator new(bytes);
    if (data != nullptr) taken_.push_back(data);
    return static_cast<std::byte*>(data);
  }

 private:
  Communicator& comm_;
  bool shared_;
  std::vector<void*> taken_;
};

}  // namespace passing::test
