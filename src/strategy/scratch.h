// Memory for what is under way. Fresh pages cost more than a sum: it is kept for the next operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace passing::strategy {

class Scratch;

/// Of one communicator, used by one thread at a time.
class ScratchPool {
 public:
  /// Not initialised.
  Scratch take(std::size_t bytes);

 private:
  friend class Scratch;
  struct Block {
    std::size_t bytes = 0;
    std::unique_ptr<std::byte[]> data;
  };
  static constexpr std::size_t kMostKept = 32 << 20;

  void give_back(Block block) {
    if (kept_ + block.bytes > kMostKept) return;
    try {
      spare_.push_back(std::move(block));
      kept_ += spare_.back().bytes;
    } catch (const std::bad_alloc&) {
      // Then not.
    }
  }

  std::vector<Block> spare_;
  std::size_t kept_ = 0;
};

/// Goes back to its pool, which must live longer.
class Scratch {
 public:
  Scratch(Scratch&& other) noexcept = default;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    if (block_.data) pool_->give_back(std::move(block_));
  }
  std::byte* get() const { return block_.data.get(); }

 private:
  friend class ScratchPool;
  Scratch(ScratchPool& pool, ScratchPool::Block block) : pool_(&pool), block_(std::move(block)) {}

  ScratchPool* pool_;
  ScratchPool::Block block_;
};

inline Scratch ScratchPool::take(std::size_t bytes) {
  // The smallest that is large enough, but not one that something much larger will want.
  auto best = spare_.end();
  for (auto each = spare_.begin(); each != spare_.end(); ++each) {
    if (each->bytes >= bytes && each->bytes / 4 <= bytes &&
        (best == spare_.end() || each->bytes < best->bytes))
      best = each;
  }
  if (best == spare_.end()) return {*this, {bytes, std::make_unique_for_overwrite<std::byte[]>(bytes)}};
  Block block = std::move(*best);
  spare_.erase(best);
  kept_ -= block.bytes;
  return {*this, std::move(block)};
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the pool owns it

}  // namespace passing::strategy
