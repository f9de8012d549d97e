// What flows through the connections of a mesh: docs/mesh.md.
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "net/mesh_connection.h"

namespace passing::net {
namespace {

using Status = Transfer::Status;

// What one connection may move before others have their turn.
constexpr std::size_t kTurnBytes = 4 << 20;

}  // namespace

bool Mesh::glance(std::uint32_t rank) {
  Connection* there = outgoing_[rank];
  return there != nullptr && !there->broken && !there->connecting && read(*there);
}

TransferPtr Mesh::recv(std::uint32_t from, std::uint64_t tag, std::uint64_t mask, void* data,
                       std::size_t bytes, bool sure) {
  auto transfer = std::make_shared<Transfer>();
  transfer->peer = from;
  transfer->tag = tag;
  transfer->mask = mask;
  transfer->data = data;
  transfer->expected = bytes;
  const auto arrived = arrived_.take(tag, mask);
  if (!arrived) {
    posted_.add(transfer);
    if (sure && bytes > kSmall) expect(transfer);
    if (holders_ > 0) ask_for(*transfer);
    return transfer;
  }
  transfer->tag = arrived->tag;
  transfer->bytes = arrived->bytes;
  if (arrived->announced) {
    on_announced(*arrived->connection, arrived->id, transfer);
    return transfer;
  }
  give_back(arrived->connection, arrived->bytes);
  const bool fits = arrived->bytes == bytes;
  if (fits && bytes > 0) std::memcpy(data, arrived->data.data(), bytes);
  end(*transfer, fits ? Status::done : Status::wrong_length);
  return transfer;
}

// The sender need not ask whether the message is wanted.
void Mesh::expect(const TransferPtr& transfer) {
  Connection& there = connection_to(transfer->peer);
  if (there.broken) return;
  transfer->id = next_id_++;
  there.hoped.emplace(transfer->id, transfer);
  push(there, {.header = {.type = FrameType::expect,
                          .tag = transfer->tag,
                          .id = transfer->id,
                          .bytes = transfer->expected},
               .urgent = true});
}

// The receive that waits for such a message, if there is one; it waits no longer.
TransferPtr Mesh::wanted(std::uint64_t tag) {
  TransferPtr transfer = posted_.take(tag);
  if (!transfer) return nullptr;
  transfer->exact = transfer->tag == tag;
  transfer->tag = tag;
  return transfer;
}

void Mesh::on_announced(Connection& connection, std::uint64_t id, const TransferPtr& transfer) {
  const bool fits = transfer->bytes == transfer->expected;
  if (fits) connection.expected.emplace(id, transfer);
  push(connection,
       {.header = {.type = fits ? FrameType::want : FrameType::refuse, .tag = transfer->tag, .id = id},
        .urgent = true});
  if (!fits) end(*transfer, Status::wrong_length);
}

void Mesh::on_answer(Connection& connection, bool wanted) {
  const auto found = connection.announced.find({connection.header.tag, connection.header.id});
  if (found == connection.announced.end()) return lose(connection, "it speaks another protocol");
  const TransferPtr transfer = std::move(found->second);
  connection.announced.erase(found);
  if (wanted) send_data(connection, FrameType::data, connection.header.id, transfer);
  answered(connection, *transfer);
  if (!wanted) end(*transfer, Status::done);  // as far as the sender is concerned
}

// A receive waits: for the first message of its kind that has been announced, or for one to come.
void Mesh::on_expect(Connection& connection) {
  const FrameHeader& header = connection.header;
  auto found = connection.announced.lower_bound({header.tag, 0});
  const auto same_tag = [&] {
    return found != connection.announced.end() && found->first.first == header.tag;
  };
  while (same_tag() && found->second->bytes != header.bytes) ++found;
  if (!same_tag()) {
    connection.expectations[header.tag].push_back({header.id, header.bytes});
    return;
  }
  const TransferPtr transfer = std::move(found->second);
  connection.announced.erase(found);
  send_data(connection, FrameType::deliver, header.id, transfer);
  answered(connection, *transfer);
}

// Where the next byte of the payload goes, and how many may go there.
std::span<std::byte> Mesh::payload_room(Connection& connection) {
  static thread_local std::array<std::byte, kSmall> nowhere;  // what is written there is never read
  const std::size_t left = connection.header.bytes - connection.payload_bytes;
  if (connection.dropped) return {nowhere.data(), std::min(left, nowhere.size())};
  if (!connection.target)
    return {reinterpret_cast<std::byte*>(connection.kept.data()) + connection.payload_bytes, left};
  return {static_cast<std::byte*>(connection.target->data) + connection.target->received +
              connection.payload_bytes,
          left};
}

// Headers and short messages come out of a buffer, many with one call of the system; what is long goes
// straight where it belongs.
bool Mesh::read(Connection& connection) {
  bool drained = false;
  for (std::size_t moved = 0; moved < kTurnBytes;) {
    use_stash(connection);
    if (connection.broken || drained) return moved > 0;
    std::array<iovec, 2> parts;
    std::size_t count = 0;
    std::span<std::byte> room;
    if (connection.in_payload) {
      room = payload_room(connection);
      parts[count++] = {room.data(), room.size()};
    }
    // After a long payload only the next header, or what follows would be copied once more.
    const std::size_t stash =
        room.size() > connection.stash.size() ? sizeof(FrameHeader) : connection.stash.size();
    parts[count++] = {connection.stash.data(), stash};
    const ssize_t result = readv(connection.descriptor, parts.data(), static_cast<int>(count));
    if (result < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return moved > 0;
    }
    if (result <= 0) {
      broke_off(connection, result < 0 ? errno : 0);
      return true;
    }
    const auto got = static_cast<std::size_t>(result);
    moved += got;
    drained = got < room.size() + stash;
    connection.stashed = got - std::min(got, room.size());
    if (connection.in_payload) took(connection, got - connection.stashed);
  }
  // Nobody tells that there is something here.
  use_stash(connection);
  return true;
}

// Takes apart what the buffer holds.
void Mesh::use_stash(Connection& connection) {
  std::size_t at = 0;
  // What has been looked at is not looked at again, also if there was no memory for it.
  struct Rest {
    Connection& connection;
    const std::size_t& at;
    ~Rest() {
      if (connection.broken) connection.stashed = at;
      connection.stashed -= at;
      std::memmove(connection.stash.data(), connection.stash.data() + at, connection.stashed);
    }
  } const rest{connection, at};
  while (at < connection.stashed && !connection.broken) {
    const std::byte* from = connection.stash.data() + at;
    const std::size_t have = connection.stashed - at;
    if (connection.in_payload) {
      const std::span<std::byte> room = payload_room(connection);
      const std::size_t bytes = std::min(have, room.size());
      std::memcpy(room.data(), from, bytes);
      at += bytes;
      took(connection, bytes);
    } else {
      const std::size_t bytes = std::min(have, sizeof connection.header - connection.header_bytes);
      std::memcpy(reinterpret_cast<std::byte*>(&connection.header) + connection.header_bytes, from, bytes);
      at += bytes;
      connection.header_bytes += bytes;
      if (connection.header_bytes == sizeof connection.header) on_header(connection);
    }
  }
}

// So much of the payload has come.
void Mesh::took(Connection& connection, std::size_t bytes) {
  connection.payload_bytes += bytes;
  if (connection.payload_bytes == connection.header.bytes) on_payload(connection);
}

// A stranger's is counted, a peer's is the end of the connection.
void Mesh::bad_frame(Connection& connection) {
  if (connection.stranger_until != 0) return refuse(connection, &Refused::garbage);
  lose(connection, "it speaks another protocol");
}

void Mesh::on_header(Connection& connection) {
  const FrameHeader& header = connection.header;
  connection.header_bytes = 0;
  if (connection.stage != Connection::Stage::open) return on_greeting_header(connection);
  // Nobody says anything on a connection that is only there to call.
  if (header.magic != FrameHeader::kMagic || connection.calling || connection.called)
    return bad_frame(connection);
  switch (header.type) {
    case FrameType::announce:
      if (const TransferPtr transfer = wanted(header.tag)) {
        transfer->bytes = header.bytes;
        transfer->promised = transfer->id != 0 && transfer->exact && header.bytes == transfer->expected;
        // What says that it is expected is on its way, and crosses this.
        if (!transfer->promised) on_announced(connection, header.id, transfer);
      } else {
        arrived_.add(header.tag, {.tag = header.tag,
                                  .bytes = header.bytes,
                                  .data = {},
                                  .connection = &connection,
                                  .announced = true,
                                  .id = header.id});
      }
      return;
    case FrameType::expect: return on_expect(connection);
    case FrameType::want: return on_answer(connection, true);
    case FrameType::refuse: return on_answer(connection, false);
    case FrameType::credit: return on_credit(connection, header.tag);
    case FrameType::held: return on_held(connection);
    case FrameType::ask: return on_ask(connection);
    case FrameType::message:
      on_credit(connection, header.id);
      if (connection.broken) return;
      [[fallthrough]];
    case FrameType::notice:
      if (header.bytes > kSmall) return bad_frame(connection);
      connection.target = wanted(header.tag);
      if (connection.target) connection.target->bytes = header.bytes;
      connection.dropped = connection.target && connection.target->expected != header.bytes;
      if (connection.dropped) end(*std::exchange(connection.target, nullptr), Status::wrong_length);
      if (!connection.target && !connection.dropped) connection.kept.assign(header.bytes, '\0');
      break;
    case FrameType::data:
    case FrameType::deliver:
      if (!on_large(connection)) return bad_frame(connection);
      break;
    default: return bad_frame(connection);
  }
  connection.in_payload = true;
  connection.payload_bytes = 0;
  if (header.bytes == 0) on_payload(connection);
}

// The next part of a large message, if there is a receive that has asked for it and it fits.
bool Mesh::on_large(Connection& connection) {
  const FrameHeader& header = connection.header;
  const bool delivered = header.type == FrameType::deliver;
  const auto& receives = delivered ? connection.hoped : connection.expected;
  const auto found = receives.find(header.id);
  if (found == receives.end() || header.bytes > found->second->expected - found->second->received)
    return false;
  // Something else has ended the receive: its buffer is no longer ours.
  connection.dropped = found->second->ended();
  if (connection.dropped) return true;
  connection.target = found->second;
  if (!delivered) return true;
  if (!std::exchange(connection.target->promised, true)) posted_.remove(connection.target);
  connection.target->bytes = connection.target->expected;
  return true;
}

void Mesh::on_payload(Connection& connection) {
  connection.in_payload = false;
  if (connection.stage != Connection::Stage::open) return on_greeting(connection);
  const bool costs = connection.header.type == FrameType::message;
  if (costs && (connection.dropped || connection.target)) give_back(&connection, connection.header.bytes);
  if (std::exchange(connection.dropped, false)) return;
  if (const TransferPtr transfer = std::exchange(connection.target, nullptr)) {
    transfer->received += connection.header.bytes;
    if (transfer->received < transfer->expected) return;
    (connection.header.type == FrameType::deliver ? connection.hoped : connection.expected)
        .erase(connection.header.id);
    return end(*transfer, Status::done);
  }
  // Someone may want it by now.
  const std::uint64_t tag = connection.header.tag;
  const TransferPtr transfer = wanted(tag);
  if (!transfer) {
    arrived_.add(tag, {.tag = tag,
                       .bytes = connection.header.bytes,
                       .data = std::move(connection.kept),
                       .connection = costs ? &connection : nullptr});
    return;
  }
  if (costs) give_back(&connection, connection.header.bytes);
  transfer->bytes = connection.header.bytes;
  const bool fits = transfer->bytes == transfer->expected;
  if (fits && transfer->bytes > 0) std::memcpy(transfer->data, connection.kept.data(), transfer->bytes);
  end(*transfer, fits ? Status::done : Status::wrong_length);
}

}  // namespace passing::net
