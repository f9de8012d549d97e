// The buffers that allocate() gives.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/mutex.h"

namespace passing {

namespace inhost {
class Host;
}

/// Takes them from the memory that the ranks of a host share, or from ordinary memory where none is shared.
/// Knows those that are in use, so that free() of anything else is an error. Any thread may call it.
class SharedHeap {
 public:
  /// From now on from the memory of this host: before anything is allocated.
  void share(std::shared_ptr<inhost::Host> host);

  Expected<void*> allocate(std::size_t bytes);
  /// Null is none.
  Expected<void> free(void* data);

 private:
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };

  Mutex mutex_;
  std::shared_ptr<inhost::Host> host_ PASSING_GUARDED_BY(mutex_);
  std::map<const void*, std::unique_ptr<void, Free>> ordinary_ PASSING_GUARDED_BY(mutex_);
};

}  // namespace passing
