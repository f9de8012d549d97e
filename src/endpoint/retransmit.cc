#include "endpoint/retransmit.h"

#include "base/error.h"

namespace passing::endpoint {

RetransmitList::RetransmitList(std::uint32_t places) : nodes_(places) {}

void RetransmitList::first_sent(std::uint32_t place, Time now) {
  Node& node = nodes_[place];
  PASSING_ASSERT(!node.linked);
  node.sent = now;
  node.transmissions = 1;
  link_last(place);
}

void RetransmitList::sent_again(std::uint32_t place, Time now) {
  remove(place);
  nodes_[place].sent = now;
  ++nodes_[place].transmissions;
  link_last(place);
}

void RetransmitList::remove(std::uint32_t place) {
  Node& node = nodes_[place];
  if (!node.linked) return;
  node.linked = false;
  (node.previous == kNone ? head_ : nodes_[node.previous].next) = node.next;
  (node.next == kNone ? tail_ : nodes_[node.next].previous) = node.previous;
}

void RetransmitList::link_last(std::uint32_t place) {
  Node& node = nodes_[place];
  node.previous = tail_;
  node.next = kNone;
  node.linked = true;
  node.order = ++sent_;
  (tail_ == kNone ? head_ : nodes_[tail_].next) = place;
  tail_ = place;
}

}  // namespace passing::endpoint
