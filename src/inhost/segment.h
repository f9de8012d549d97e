// Memory that several processes share, and nobody else can open.
#pragma once

#include <cstddef>
#include <utility>

#include "base/error.h"
#include "inhost/descriptor.h"

namespace passing::inhost {

/// A mapping of a memfd. It has no name; the pages go when the last process that maps it ends, however it
/// ends. It can neither shrink nor grow, so that no access faults. Errors are predicates, to be put after the
/// name of a rank: "cannot ...; remedy".
class Segment {
 public:
  /// Makes one, all zero, and the descriptor to pass on.
  static Expected<std::pair<Segment, Descriptor>> create(std::size_t bytes);
  /// Maps one that was passed on. `bytes` are what it must have.
  static Expected<Segment> map(const Descriptor& memory, std::size_t bytes);

  Segment() = default;
  Segment(Segment&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Segment& operator=(Segment&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Segment();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Has the system provide pages now: a lack of memory is an error here, and a signal later.
Expected<void> commit(std::byte* data, std::size_t bytes);
/// Gives whole pages back; they read as zero.
void release(std::byte* data, std::size_t bytes);

}  // namespace passing::inhost
