// Small messages go before anyone asks for them, and are kept by the receiver: as many as there is credit
// for. Beyond that they are announced, a few of each tag, and the rest waits here. So a receiver's memory is
// bounded, and whatever it waits for comes all the same.
#include "net/mesh_connection.h"

namespace passing::net {

bool Mesh::must_wait(const Connection& connection, const Transfer& transfer) {
  // Those of one tag keep their order.
  if (!connection.held.empty() && connection.held.contains(transfer.tag)) return true;
  if (transfer.bytes > kSmall || connection.unclaimed + transfer.bytes + kRecord <= kCredit) return false;
  const auto found = connection.beyond.find(transfer.tag);
  return found != connection.beyond.end() && found->second >= kAnnouncedPerTag;
}

void Mesh::hold(Connection& connection, const TransferPtr& transfer) {
  connection.held[transfer->tag].push_back(transfer);
  connection.held_order.push_back(transfer->tag);
  transfer->id = connection.notices_gone + connection.notices.size();
  ++connection.held_behind;
}

// Those before which nothing is held any more.
void Mesh::let_notices_go(Connection& connection, const Transfer& released) {
  auto& notices = connection.notices;
  const std::size_t behind = released.id - connection.notices_gone;
  --(behind < notices.size() ? notices[behind].before : connection.held_behind);
  while (!notices.empty() && notices.front().before == 0) {
    push(connection, std::move(notices.front().frame));
    notices.pop_front();
    ++connection.notices_gone;
  }
}

// Lets the next of this tag go, if it may. What is large behind it goes with it: nothing else would let it
// go.
bool Mesh::release(Connection& connection, std::uint64_t tag) {
  bool some = false;
  for (;;) {
    const auto found = connection.held.find(tag);
    if (found == connection.held.end()) break;
    const TransferPtr next = found->second.front();
    const bool small = next->bytes <= kSmall;
    if (small && some) break;
    if (small && connection.unclaimed + next->bytes + kRecord > kCredit) {
      const auto beyond = connection.beyond.find(tag);
      if (beyond != connection.beyond.end() && beyond->second >= kAnnouncedPerTag) break;
    }
    found->second.pop_front();
    if (found->second.empty()) connection.held.erase(found);
    dispatch(connection, next);
    let_notices_go(connection, *next);
    some = true;
  }
  if (connection.held.empty()) connection.held_order.clear();
  return some;
}

// The receiver has taken, or refused, what was announced.
void Mesh::answered(Connection& connection, const Transfer& transfer) {
  if (transfer.bytes > kSmall) return;
  const auto found = connection.beyond.find(transfer.tag);
  if (found != connection.beyond.end() && --found->second == 0) connection.beyond.erase(found);
  while (release(connection, transfer.tag)) {
  }
}

// A receive has taken a message, or it was dropped.
void Mesh::give_back(Connection* connection, std::size_t bytes) {
  if (connection == nullptr || connection->broken) return;
  connection->owed += bytes + kRecord;
  // Messages that go there take it with them; if there are none, seldom.
  if (connection->owed < kCredit / 4) return;
  push(*connection,
       {.header = {.type = FrameType::credit, .tag = std::exchange(connection->owed, 0)}, .urgent = true});
}

void Mesh::on_credit(Connection& connection, std::size_t amount) {
  if (amount > connection.unclaimed) return bad_frame(connection);
  connection.unclaimed -= amount;
  while (!connection.held_order.empty()) {
    const std::uint64_t tag = connection.held_order.front();
    if (connection.held.contains(tag) && !release(connection, tag)) return;
    if (!connection.held_order.empty()) connection.held_order.pop_front();
  }
}

}  // namespace passing::net
