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
constexpr std::size_t kFramesAtOnce = 16;
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
  } else {
    const std::uint64_t id = next_id_++;
    there.announced.emplace(id, transfer);
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
  const bool idle = connection.out.empty() && !connection.connecting;
  auto place = connection.out.end();
  if (frame.urgent) {
    place = connection.out.begin();
    if (connection.written > 0) ++place;  // that one has begun
    while (place != connection.out.end() && place->urgent) ++place;
  }
  connection.out.insert(place, std::move(frame));
  if (idle) write(connection);
  watch(connection);
}

void Mesh::write(Connection& connection) {
  std::size_t moved = 0;
  while (!connection.out.empty() && moved < kTurnBytes) {
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
      if (errno != EAGAIN && errno != EWOULDBLOCK) return lose(connection, std::strerror(errno));
      break;
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
                       std::size_t bytes) {
  auto transfer = std::make_shared<Transfer>();
  transfer->peer = from;
  transfer->tag = tag;
  transfer->mask = mask;
  transfer->data = data;
  transfer->expected = bytes;
  const auto found = std::find_if(arrived_.begin(), arrived_.end(),
                                  [&](const Arrived& each) { return ((each.tag ^ tag) & mask) == 0; });
  if (found == arrived_.end()) {
    posted_.push_back(transfer);
    return transfer;
  }
  const Arrived arrived = std::move(*found);
  arrived_.erase(found);
  transfer->tag = arrived.tag;
  transfer->bytes = arrived.bytes;
  if (arrived.connection != nullptr) {
    on_announced(*arrived.connection, arrived.id, transfer);
  } else if (arrived.bytes != bytes) {
    end(*transfer, Status::wrong_length);
  } else {
    if (bytes > 0) std::memcpy(data, arrived.data.data(), bytes);
    end(*transfer, Status::done);
  }
  return transfer;
}

// The receive that waits for such a message, if there is one; it waits no longer.
TransferPtr Mesh::wanted(std::uint64_t tag) {
  const auto found = std::find_if(posted_.begin(), posted_.end(), [&](const TransferPtr& each) {
    return ((each->tag ^ tag) & each->mask) == 0;
  });
  if (found == posted_.end()) return nullptr;
  TransferPtr transfer = std::move(*found);
  posted_.erase(found);
  transfer->tag = tag;
  return transfer;
}

void Mesh::on_announced(Connection& connection, std::uint64_t id, const TransferPtr& transfer) {
  const bool fits = transfer->bytes == transfer->expected;
  if (fits) connection.expected.emplace(id, transfer);
  push(connection, {.header = {.type = fits ? FrameType::want : FrameType::refuse, .id = id}});
  if (!fits) end(*transfer, Status::wrong_length);
}

void Mesh::on_answer(Connection& connection, bool wanted) {
  const auto found = connection.announced.find(connection.header.id);
  if (found == connection.announced.end()) return lose(connection, "it speaks another protocol");
  const TransferPtr transfer = std::move(found->second);
  connection.announced.erase(found);
  if (!wanted) return end(*transfer, Status::done);  // as far as the sender is concerned
  const std::uint64_t id = connection.header.id;
  for (std::size_t at = 0; at < transfer->bytes; at += kSlice) {
    const std::size_t bytes = std::min(kSlice, transfer->bytes - at);
    push(connection, {.header = {.type = FrameType::data, .id = id, .bytes = bytes},
                      .data = static_cast<const std::byte*>(transfer->data) + at,
                      .bytes = bytes,
                      .transfer = at + bytes == transfer->bytes ? transfer : nullptr});
    if (connection.broken) break;
  }
  // A connection that broke on the way has no slice left that would end it.
  if (connection.broken && !transfer->ended()) end(*transfer, Status::failed);
}

void Mesh::read(Connection& connection) {
  std::array<std::byte, kSmall> nowhere;
  for (std::size_t moved = 0; moved < kTurnBytes;) {
    std::array<iovec, 2> parts;
    std::size_t count = 0;
    const std::size_t left = connection.in_payload ? connection.header.bytes - connection.payload_bytes : 0;
    if (connection.in_payload) {
      void* to = nowhere.data();
      if (connection.target) {
        to = static_cast<std::byte*>(connection.target->data) + connection.target->received +
             connection.payload_bytes;
      }
      if (!connection.dropped && !connection.target) to = connection.kept.data() + connection.payload_bytes;
      parts[count++] = {to, connection.dropped ? std::min(left, nowhere.size()) : left};
    }
    // The next header with the same call, where nothing else comes between.
    FrameHeader next;
    if (!connection.dropped) {
      const std::size_t have = connection.in_payload ? 0 : connection.header_bytes;
      FrameHeader& into = connection.in_payload ? next : connection.header;
      parts[count++] = {reinterpret_cast<std::byte*>(&into) + have, sizeof into - have};
    }
    const ssize_t result = readv(connection.descriptor, parts.data(), static_cast<int>(count));
    if (result < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      return lose(connection, std::strerror(errno));
    }
    if (result == 0) return lose(connection, "it has closed the connection");
    auto got = static_cast<std::size_t>(result);
    moved += got;
    if (connection.in_payload) {
      const std::size_t payload = std::min(got, left);
      connection.payload_bytes += payload;
      got -= payload;
      if (connection.payload_bytes < connection.header.bytes) continue;
      on_payload(connection);
      if (connection.broken) return;
      connection.header = next;
      connection.header_bytes = 0;
    }
    connection.header_bytes += got;
    if (connection.header_bytes < sizeof connection.header) continue;
    on_header(connection);
    if (connection.broken) return;
  }
}

void Mesh::on_header(Connection& connection) {
  const FrameHeader& header = connection.header;
  const bool known = connection.peer < outgoing_.size();
  connection.header_bytes = 0;
  if (header.magic != FrameHeader::kMagic || known == (header.type == FrameType::hello))
    return lose(connection, "it speaks another protocol");
  switch (header.type) {
    case FrameType::hello:
      // Someone of an earlier group, or a stranger: not one of our peers, so nobody is lost.
      if (header.id != group_ || header.tag >= outgoing_.size())
        return lose(connection, "it is not of this group");
      connection.peer = static_cast<std::uint32_t>(header.tag);
      return;
    case FrameType::announce:
      if (const TransferPtr transfer = wanted(header.tag)) {
        transfer->bytes = header.bytes;
        on_announced(connection, header.id, transfer);
      } else {
        arrived_.push_back(
            {.tag = header.tag, .bytes = header.bytes, .connection = &connection, .id = header.id});
      }
      return;
    case FrameType::want: return on_answer(connection, true);
    case FrameType::refuse: return on_answer(connection, false);
    case FrameType::message:
      if (header.bytes > kSmall) return lose(connection, "it speaks another protocol");
      connection.target = wanted(header.tag);
      if (connection.target) connection.target->bytes = header.bytes;
      connection.dropped = connection.target && connection.target->expected != header.bytes;
      if (connection.dropped) end(*std::exchange(connection.target, nullptr), Status::wrong_length);
      if (!connection.target && !connection.dropped) connection.kept.assign(header.bytes, '\0');
      break;
    case FrameType::data: {
      const auto found = connection.expected.find(header.id);
      if (found == connection.expected.end() ||
          header.bytes > found->second->expected - found->second->received) {
        return lose(connection, "it speaks another protocol");
      }
      connection.target = found->second;
      break;
    }
    default: return lose(connection, "it speaks another protocol");
  }
  connection.in_payload = true;
  connection.payload_bytes = 0;
  if (header.bytes == 0) on_payload(connection);
}

void Mesh::on_payload(Connection& connection) {
  connection.in_payload = false;
  if (std::exchange(connection.dropped, false)) return;
  if (const TransferPtr transfer = std::exchange(connection.target, nullptr)) {
    transfer->received += connection.header.bytes;
    if (transfer->received < transfer->expected) return;
    connection.expected.erase(connection.header.id);
    return end(*transfer, Status::done);
  }
  // Someone may want it by now.
  const std::uint64_t tag = connection.header.tag;
  const TransferPtr transfer = wanted(tag);
  if (!transfer) {
    arrived_.push_back({.tag = tag, .bytes = connection.header.bytes, .data = std::move(connection.kept)});
    return;
  }
  transfer->bytes = connection.header.bytes;
  const bool fits = transfer->bytes == transfer->expected;
  if (fits && transfer->bytes > 0) std::memcpy(transfer->data, connection.kept.data(), transfer->bytes);
  end(*transfer, fits ? Status::done : Status::wrong_length);
}

}  // namespace passing::net
