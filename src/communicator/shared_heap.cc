#include "communicator/shared_heap.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "inhost/host.h"

namespace passing {
namespace {

// Enough for every instruction and every line.
constexpr std::size_t kAlignment = 128;

}  // namespace

void SharedHeap::share(std::shared_ptr<inhost::Host> host) {
  const MutexLock lock(mutex_);
  PASSING_ASSERT(ordinary_.empty());
  host_ = std::move(host);
}

Expected<void*> SharedHeap::allocate(std::size_t bytes) {
  const MutexLock lock(mutex_);
  if (host_) return host_->allocate(bytes);
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  std::unique_ptr<void, Free> made(bytes <= whole ? std::aligned_alloc(kAlignment, whole) : nullptr);
  if (made == nullptr)
    return fail(ErrorCode::no_capacity, fmt::format("cannot allocate {} bytes: give it more memory", bytes));
  void* data = made.get();
  ordinary_.emplace(data, std::move(made));
  return data;
}

Expected<void> SharedHeap::free(void* data) {
  if (data == nullptr) return {};
  const std::string where = fmt::format("{}", fmt::ptr(data));  // while it is a pointer
  const MutexLock lock(mutex_);
  if (host_) {
    if (host_->free(data)) return {};
  } else if (const auto found = ordinary_.find(data); found != ordinary_.end()) {
    ordinary_.erase(found);
    return {};
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("the buffer at {} cannot be freed: this communicator did not allocate it, or has "
                          "freed it already",
                          where));
}

}  // namespace passing
