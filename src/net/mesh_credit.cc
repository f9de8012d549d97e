// Small messages go before anyone asks for them, and are kept by the receiver: as many as there is credit
// for. Beyond that they are announced, as large ones are: a few of each tag, and not too many in all. The
// rest waits here. So a receiver's memory is bounded, and whatever it waits for comes all the same:
// docs/mesh.md.
#include "net/mesh_connection.h"

namespace passing::net {

bool Mesh::has_credit(const Connection& connection, const Transfer& transfer) {
  return transfer.bytes <= kSmall && connection.unclaimed + transfer.bytes + kRecord <= kCredit;
}

// A receive has asked for just this one.
bool Mesh::is_expected(const Connection& connection, const Transfer& transfer) {
  const auto found = connection.expectations.find(transfer.tag);
  return found != connection.expectations.end() && found->second.front().bytes == transfer.bytes;
}

bool Mesh::is_announced(const Connection& connection, std::uint64_t tag) {
  const auto first = connection.announced.lower_bound({tag, 0});
  return first != connection.announced.end() && first->first.first == tag;
}

bool Mesh::may_go(const Connection& connection, const Transfer& transfer) {
  if (has_credit(connection, transfer) || is_expected(connection, transfer)) return true;
  if (connection.announced.size() >= kMostAnnounced) return false;
  if (transfer.bytes > kSmall) return true;
  const auto found = connection.beyond.find(transfer.tag);
  return found == connection.beyond.end() || found->second < kAnnouncedPerTag;
}

bool Mesh::must_wait(const Connection& connection, const Transfer& transfer) {
  // Those of one tag keep their order.
  if (!connection.held.empty() && connection.held.contains(transfer.tag)) return true;
  return !may_go(connection, transfer);
}

void Mesh::hold(Connection& connection, const TransferPtr& transfer) {
  connection.held[transfer->tag].push_back(transfer);
  connection.held_order.push_back(transfer->tag);
  transfer->id = connection.notices_gone + connection.notices.size();
  ++connection.held_behind;
  tell_held(connection, transfer->tag);
}

// Of a tag that is held, but not announced, the peer knows nothing. It must hear of it once, to ask if a
// receive waits, and that there are such tags, to ask when a receive is posted later.
void Mesh::tell_held(Connection& connection, std::uint64_t tag) {
  const auto told = connection.hidden_since.find(tag);
  const bool hidden = connection.held.contains(tag) && !is_announced(connection, tag);
  if (hidden == (told != connection.hidden_since.end())) return;
  if (hidden) {
    connection.hidden.emplace(connection.next_hidden, tag);
    connection.hidden_since.emplace(tag, connection.next_hidden++);
  } else {
    connection.hidden.erase(told->second);
    connection.hidden_since.erase(told);
    if (!connection.hidden.empty()) return;
  }
  push(connection, {.header = {.type = FrameType::held, .tag = tag, .id = connection.hidden.size()}});
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

// Lets the next of this tag go, if it may or is due. What is large behind it goes with it, if it may.
bool Mesh::release(Connection& connection, std::uint64_t tag, bool due) {
  bool some = false;
  for (;;) {
    const auto found = connection.held.find(tag);
    if (found == connection.held.end()) break;
    const TransferPtr next = found->second.front();
    if (some && next->bytes <= kSmall) break;
    if (!may_go(connection, *next) && (some || !due)) break;
    found->second.pop_front();
    if (found->second.empty()) connection.held.erase(found);
    dispatch(connection, next);
    let_notices_go(connection, *next);
    some = true;
  }
  if (connection.held.empty()) connection.held_order.clear();
  if (some) tell_held(connection, tag);
  return some;
}

void Mesh::release_in_order(Connection& connection) {
  while (!connection.held_order.empty()) {
    const std::uint64_t tag = connection.held_order.front();
    if (connection.held.contains(tag) && !release(connection, tag, false)) return;
    if (!connection.held_order.empty()) connection.held_order.pop_front();
  }
}

// Whatever the limits say: until one of this tag is announced, whose answer will let the next go, or none is
// held.
void Mesh::let_go(Connection& connection, std::uint64_t tag) {
  while (connection.held.contains(tag) && !is_announced(connection, tag)) release(connection, tag, true);
}

// The receiver has taken, or refused, what was announced.
void Mesh::answered(Connection& connection, const Transfer& transfer) {
  const auto found = connection.beyond.find(transfer.tag);
  if (transfer.bytes <= kSmall && found != connection.beyond.end() && --found->second == 0)
    connection.beyond.erase(found);
  while (release(connection, transfer.tag, false)) {
  }
  let_go(connection, transfer.tag);
  release_in_order(connection);
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
  release_in_order(connection);
}

// The peer has hidden tags, or none any more.
void Mesh::on_held(Connection& connection) {
  const FrameHeader& header = connection.header;
  const bool some = header.id > 0;
  if (some && !connection.holds) ++holders_;
  if (!some && connection.holds) --holders_;
  connection.holds = some;
  if (!some || !posted_.fits(header.tag)) return;
  push(connection,
       {.header = {.type = FrameType::ask, .tag = header.tag, .id = ~std::uint64_t{0}}, .urgent = true});
}

// Of all that hold something back, since it may be this.
void Mesh::ask_for(const Transfer& transfer) {
  for (Connection* each : outgoing_) {
    if (each == nullptr || each->broken || !each->holds) continue;
    if (transfer.peer != each->peer && transfer.peer != rank_) continue;
    push(*each,
         {.header = {.type = FrameType::ask, .tag = transfer.tag, .id = transfer.mask}, .urgent = true});
  }
}

// The first that fits, in the order in which the peer has heard of them.
void Mesh::on_ask(Connection& connection) {
  const FrameHeader& header = connection.header;
  if (header.id == ~std::uint64_t{0}) {
    if (connection.hidden_since.contains(header.tag)) let_go(connection, header.tag);
    return;
  }
  for (const auto& [number, tag] : connection.hidden) {
    if (((tag ^ header.tag) & header.id) == 0) return let_go(connection, tag);
  }
}

}  // namespace passing::net
