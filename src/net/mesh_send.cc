// What goes out through the connections of a mesh: docs/mesh.md.
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
constexpr std::size_t kFramesAtOnce = 32;
constexpr int kLastReads = 4;
// Large data goes in slices, between which other messages find their way: at most as much as a slice, or
// small ones that never end would hold up large ones for ever.
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
  } else if (must_wait(there, *transfer)) {
    hold(there, transfer);
  } else {
    dispatch(there, transfer);
  }
  return transfer;
}

// It is its turn: at once, to a receive that waits for it, or as an announcement.
void Mesh::dispatch(Connection& there, const TransferPtr& transfer) {
  const std::uint64_t tag = transfer->tag;
  const std::size_t bytes = transfer->bytes;
  if (has_credit(there, *transfer)) {
    there.unclaimed += bytes + kRecord;
    return push(there, {.header = {.type = FrameType::message,
                                   .tag = tag,
                                   .id = std::exchange(there.owed, 0),
                                   .bytes = bytes},
                        .data = transfer->data,
                        .bytes = bytes,
                        .transfer = transfer});
  }
  if (is_expected(there, *transfer)) {
    const auto found = there.expectations.find(tag);
    const std::uint64_t id = found->second.front().id;
    found->second.pop_front();
    if (found->second.empty()) there.expectations.erase(found);
    return send_data(there, FrameType::deliver, id, transfer);
  }
  if (bytes <= kSmall) ++there.beyond[tag];
  const std::uint64_t id = next_id_++;
  there.announced.emplace(std::pair(tag, id), transfer);
  push(there, {.header = {.type = FrameType::announce, .tag = tag, .id = id, .bytes = bytes}});
}

void Mesh::send_notice(std::uint32_t to, std::uint64_t tag, std::string data, bool urgent) {
  PASSING_ASSERT(data.size() <= kSmall);
  Connection& there = connection_to(to);
  if (there.broken) return;
  const std::size_t bytes = data.size();
  auto transfer = std::make_shared<Transfer>();  // counted, so that one can wait for it
  transfer->sending = true;
  ++sends_;
  Frame frame{.header = {.type = FrameType::notice, .tag = tag, .bytes = bytes},
              .bytes = bytes,
              .transfer = transfer,
              .urgent = urgent,
              .own = std::move(data)};
  if (urgent || there.held.empty()) return push(there, std::move(frame));
  there.notices.push_back({std::move(frame), std::exchange(there.held_behind, 0)});
}

void Mesh::push(Connection& connection, Frame frame) {
  auto place = connection.out.end();
  if (frame.urgent) {
    place = connection.out.begin();
    if (connection.written > 0 && !connection.bulk_has_begun) ++place;  // that one has begun
    while (place != connection.out.end() && place->urgent) ++place;
  }
  connection.out.insert(place, std::move(frame));
  touch(connection);
}

// There is something to be written.
void Mesh::touch(Connection& connection) {
  if (connection.unwritten) return;
  unwritten_.push_back(&connection);  // if that throws, it can be touched again
  connection.unwritten = true;
}

void Mesh::send_data(Connection& connection, FrameType type, std::uint64_t id, const TransferPtr& transfer) {
  std::uint64_t bond = 0;
  const auto slice = [&](std::size_t at, std::size_t bytes) {
    return Frame{.header = {.type = type, .id = id, .bytes = bytes},
                 .data = static_cast<const std::byte*>(transfer->data) + at,
                 .bytes = bytes,
                 .transfer = at + bytes == transfer->bytes ? transfer : nullptr,
                 .bond = bond};
  };
  if (transfer->bytes <= kSmall) return push(connection, slice(0, transfer->bytes));
  // The receive is bound here, in the order of messages, where an announcement has not done so: a small one
  // that passes the data must not take it.
  if (type == FrameType::deliver) {
    bond = ++connection.bonds;
    push(connection, slice(0, 0));
  }
  for (std::size_t at = 0; at < transfer->bytes; at += kSlice)
    connection.bulk.push_back(slice(at, std::min(kSlice, transfer->bytes - at)));
  touch(connection);
}

void Mesh::flush() {
  // Transfers that end may lead to more. What throws leaves the others for another time.
  while (!unwritten_.empty()) {
    Connection& next = *unwritten_.front();
    unwritten_.erase(unwritten_.begin());
    next.unwritten = false;
    // One that is full, or not there yet, tells when it can take more.
    if (!next.broken && !next.connecting && !next.watching_output) write(next);
    watch(next);
  }
}

// What goes out next, in order: a slice that has begun or whose turn it is, all that is short, more slices.
std::size_t Mesh::gather(const Connection& connection, std::span<iovec> parts) {
  std::size_t count = 0;
  std::size_t skip = connection.written;
  const auto part = [&](const void* data, std::size_t bytes) {
    const std::size_t done = std::min(skip, bytes);
    skip -= done;
    if (bytes > done)
      parts[count++] = {static_cast<std::byte*>(const_cast<void*>(data)) + done, bytes - done};
  };
  std::size_t room = parts.size() / 2;
  const auto frames = [&](const std::deque<Frame>& queue, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && room > 0; ++i, --room) {
      part(&queue[i].header, sizeof queue[i].header);
      part(queue[i].data != nullptr ? queue[i].data : queue[i].own.data(), queue[i].bytes);
    }
  };
  if (connection.must_end_frame()) {
    frames(connection.out, 0, 1);
    return count;
  }
  const std::size_t first = connection.bulk_is_next() ? 1 : 0;
  frames(connection.bulk, 0, first);
  frames(connection.out, 0, connection.out.size());
  frames(connection.bulk, first, connection.bulk.size());
  return count;
}

void Mesh::write(Connection& connection) {
  if (!write_greeting(connection)) return watch(connection);
  std::size_t moved = 0;
  while (connection.stage == Connection::Stage::open && connection.has_frames() && moved < kTurnBytes) {
    connection.bulk_is_due = connection.passed >= kSlice && connection.bulk_may_go();
    connection.bulk_has_turn =
        connection.bulk_is_due && connection.written == 0 && !connection.urgent_is_next();
    std::array<iovec, 2 * kFramesAtOnce> parts;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = gather(connection, parts);
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

// So much of what gather() gave has gone out.
void Mesh::written(Connection& connection, std::size_t bytes) {
  connection.written += bytes;
  // The end of a transfer may push more: only when it is clear what has gone out. Nothing throws before that,
  // or what has gone out would go out again.
  std::array<TransferPtr, kFramesAtOnce> gone;
  std::size_t count = 0;
  while (connection.has_frames()) {
    const bool of_bulk = connection.bulk_is_next() || connection.out.empty();
    std::deque<Frame>& queue = of_bulk ? connection.bulk : connection.out;
    const std::size_t whole = sizeof(FrameHeader) + queue.front().bytes;
    connection.bulk_has_begun = of_bulk && connection.written > 0 && connection.written < whole;
    if (connection.written < whole) break;
    connection.written -= whole;
    if (!of_bulk && queue.front().bond != 0) connection.bound = queue.front().bond;
    if (of_bulk) {
      connection.passed = 0;
      connection.bulk_has_turn = false;
    } else if (!connection.bulk.empty()) {
      connection.passed += whole;
    }
    if (queue.front().transfer) gone[count++] = std::move(queue.front().transfer);
    queue.pop_front();
  }
  for (std::size_t i = 0; i < count; ++i) end(*gone[i], Status::done);
}

}  // namespace passing::net
