// The chunks in flight, in the order of their last transmission: docs/protocol.md section 6.2.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace passing::endpoint {

/// One linked list over the places of a ring: no timer per packet, nothing allocated per packet.
class RetransmitList {
 public:
  explicit RetransmitList(std::uint32_t places);

  bool empty() const { return head_ == kNone; }
  bool contains(std::uint32_t place) const { return nodes_[place].linked; }
  /// The place sent longest ago.
  std::uint32_t front() const { return head_; }
  Time sent_at(std::uint32_t place) const { return nodes_[place].sent; }
  /// The number of the last transmission; later ones have greater numbers.
  std::uint64_t order(std::uint32_t place) const { return nodes_[place].order; }
  /// How often the chunk at `place` was sent.
  std::uint32_t transmissions(std::uint32_t place) const { return nodes_[place].transmissions; }

  void first_sent(std::uint32_t place, Time now);
  void sent_again(std::uint32_t place, Time now);
  void remove(std::uint32_t place);

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Node {
    Time sent = 0;
    std::uint64_t order = 0;
    std::uint32_t transmissions = 0;
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    bool linked = false;
  };

  void link_last(std::uint32_t place);

  std::vector<Node> nodes_;
  std::uint32_t head_ = kNone;
  std::uint32_t tail_ = kNone;
  std::uint64_t sent_ = 0;
};

}  // namespace passing::endpoint
