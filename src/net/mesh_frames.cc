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

// Up to here a message is sent at once, and kept by the receiver if nobody waits for it.
constexpr std::size_t kSmall = 16 << 10;
// What one connection may move before others have their turn.
constexpr std::size_t kTurnBytes = 4 << 20;
constexpr std::size_t kFramesAtOnce = 32;
constexpr int kLastReads = 4;
// Large data goes in slices, between which urgent messages find their way.
constexpr std::size_t kSlice = 256 << 10;

}  // namespace

TransferPtr Mesh::send(std::uint32_t to, std::uint64_t tag, const void* data, std::size_t bytes) {
  auto transfer = std::make_shared<Transfer>();
  transfer->sending = true;
  transfer->peer = to;
  transfer->tag = tag;
  transfer->data = const_cast<void*>(data);
  transfer->bytes = bytes;
  ++sends_;
  Connection& there = connection_to(to);
  if (there.broken) {
    end(*transfer, Status::failed);
  } else if (bytes <= kSmall) {
    push(there, {.header = {.type = FrameType::message, .tag = tag, .bytes = bytes},
                 .data = data,
                 .bytes = bytes,
                 .transfer = transfer});
  } else if (const auto found = there.expectations.find(tag);
             found != there.expectations.end() && found->second.front().bytes == bytes) {
    const std::uint64_t id = found->second.front().id;
    found->second.pop_front();
    if (found->second.empty()) there.expectations.erase(found);
    send_data(there, FrameType::deliver, id, transfer);
  } else {
    const std::uint64_t id = next_id_++;
    there.announced.emplace(std::pair(tag, id), transfer);
    push(there, {.header = {.type = FrameType::announce, .tag = tag, .id = id, .bytes = bytes}});
  }
  return transfer;
}

void Mesh::send_urgent(std::uint32_t to, std::uint64_t tag, std::string data) {
  PASSING_ASSERT(data.size() <= kSmall);
  Connection& there = connection_to(to);
  if (there.broken) return;
  const std::size_t bytes = data.size();
  auto transfer = std::make_shared<Transfer>();  // counted, so that one can wait for it
  transfer->sending = true;
  ++sends_;
  push(there, {.header = {.type = FrameType::message, .tag = tag, .bytes = bytes},
               .bytes = bytes,
               .transfer = transfer,
               .urgent = true,
               .own = std::move(data)});
}

void Mesh::push(Connection& connection, Frame frame) {
  auto place = connection.out.end();
  if (frame.urgent) {
    place = connection.out.begin();
    if (connection.written > 0) ++place;  // that one has begun
    while (place != connection.out.end() && place->urgent) ++place;
  }
  connection.out.insert(place, std::move(frame));
  touch(connection);
}

// There is something to be written.
void Mesh::touch(Connection& connection) {
  if (!std::exchange(connection.unwritten, true)) unwritten_.push_back(&connection);
}

bool Mesh::glance(std::uint32_t rank) {
  Connection* there = outgoing_[rank];
  return there != nullptr && !there->broken && !there->connecting && read(*there);
}

void Mesh::flush() {
  // Transfers that end may lead to more.
  while (!unwritten_.empty()) {
    for (Connection* each : std::exchange(unwritten_, {})) {
      each->unwritten = false;
      // One that is full, or not there yet, tells when it can take more.
      if (!each->broken && !each->connecting && !each->watching_output) write(*each);
      watch(*each);
    }
  }
}

void Mesh::write(Connection& connection) {
  if (!write_greeting(connection)) return watch(connection);
  std::size_t moved = 0;
  while (connection.stage == Connection::Stage::open && !connection.out.empty() && moved < kTurnBytes) {
    std::array<iovec, 2 * kFramesAtOnce> parts;
    std::size_t count = 0;
    std::size_t skip = connection.written;
    const auto part = [&](const void* data, std::size_t bytes) {
      const std::size_t done = std::min(skip, bytes);
      skip -= done;
      if (bytes > done)
        parts[count++] = {static_cast<std::byte*>(const_cast<void*>(data)) + done, bytes - done};
    };
    for (std::size_t i = 0; i < connection.out.size() && i < kFramesAtOnce; ++i) {
      const Frame& frame = connection.out[i];
      part(&frame.header, sizeof frame.header);
      part(frame.urgent ? frame.own.data() : frame.data, frame.bytes);
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(connection.descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      const int error = errno;
      // What the peer said before it went may explain why.
      for (int i = 0; i < kLastReads && !connection.broken; ++i) read(connection);
      return lose(connection, std::strerror(error));
    }
    moved += static_cast<std::size_t>(sent);
    written(connection, static_cast<std::size_t>(sent));
    if (connection.broken) return;
  }
  watch(connection);
}

void Mesh::written(Connection& connection, std::size_t bytes) {
  connection.written += bytes;
  while (!connection.out.empty()) {
    const std::size_t whole = sizeof(FrameHeader) + connection.out.front().bytes;
    if (connection.written < whole) return;
    connection.written -= whole;
    const TransferPtr transfer = std::move(connection.out.front().transfer);
    connection.out.pop_front();
    if (transfer) end(*transfer, Status::done);
  }
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
    if (!sure || bytes <= kSmall) return transfer;
    Connection& there = connection_to(from);
    if (there.broken) return transfer;
    transfer->id = next_id_++;
    there.hoped.emplace(transfer->id, transfer);
    push(there, {.header = {.type = FrameType::expect, .tag = tag, .id = transfer->id, .bytes = bytes},
                 .urgent = true});
    return transfer;
  }
  transfer->tag = arrived->tag;
  transfer->bytes = arrived->bytes;
  if (arrived->connection != nullptr) {
    on_announced(*arrived->connection, arrived->id, transfer);
  } else if (arrived->bytes != bytes) {
    end(*transfer, Status::wrong_length);
  } else {
    if (bytes > 0) std::memcpy(data, arrived->data.data(), bytes);
    end(*transfer, Status::done);
  }
  return transfer;
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
  if (!wanted) return end(*transfer, Status::done);  // as far as the sender is concerned
  send_data(connection, FrameType::data, connection.header.id, transfer);
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
}

void Mesh::send_data(Connection& connection, FrameType type, std::uint64_t id, const TransferPtr& transfer) {
  for (std::size_t at = 0; at < transfer->bytes; at += kSlice) {
    const std::size_t bytes = std::min(kSlice, transfer->bytes - at);
    push(connection, {.header = {.type = type, .id = id, .bytes = bytes},
                      .data = static_cast<const std::byte*>(transfer->data) + at,
                      .bytes = bytes,
                      .transfer = at + bytes == transfer->bytes ? transfer : nullptr});
  }
}

// Where the next byte of the payload goes, and how many may go there.
std::span<std::byte> Mesh::payload_room(Connection& connection) {
  static std::array<std::byte, kSmall> nowhere;  // what is written there is never read
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
      lose(connection, std::strerror(errno));
      return true;
    }
    if (result == 0) {
      lose(connection, "it has closed the connection");
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
  connection.stashed = 0;
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
                                  .id = header.id});
      }
      return;
    case FrameType::expect: return on_expect(connection);
    case FrameType::want: return on_answer(connection, true);
    case FrameType::refuse: return on_answer(connection, false);
    case FrameType::message:
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
  connection.target = found->second;
  if (!delivered) return true;
  if (!std::exchange(connection.target->promised, true)) posted_.remove(connection.target);
  connection.target->bytes = connection.target->expected;
  return true;
}

void Mesh::on_payload(Connection& connection) {
  connection.in_payload = false;
  if (connection.stage != Connection::Stage::open) return on_greeting(connection);
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
    arrived_.add(tag, {.tag = tag, .bytes = connection.header.bytes, .data = std::move(connection.kept)});
    return;
  }
  transfer->bytes = connection.header.bytes;
  const bool fits = transfer->bytes == transfer->expected;
  if (fits && transfer->bytes > 0) std::memcpy(transfer->data, connection.kept.data(), transfer->bytes);
  end(*transfer, fits ? Status::done : Status::wrong_length);
}

}  // namespace passing::net
