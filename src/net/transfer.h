// One message from rank to rank, while it is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace passing::net {

/// One message under way, in either direction. Changed only by the mesh, on its thread.
struct Transfer {
  enum class Status : std::uint8_t { pending, done, cancelled, wrong_length, failed };

  Status status = Status::pending;
  bool sending = false;
  std::uint32_t peer = 0;
  std::uint64_t tag = 0;         ///< received: the sender's, with what the mask left open
  std::size_t bytes = 0;         ///< received: as many as came
  std::size_t before = 0;        ///< received: of the same part, in earlier messages, for who reports
  std::size_t whole = 0;         ///< received: that part, if it comes in several
  std::function<void()> on_end;  ///< called once, from within the mesh

  bool ended() const { return status != Status::pending; }

  // For the mesh.
  std::uint64_t mask = 0;
  void* data = nullptr;
  std::size_t expected = 0;  // what a received message must have,
  std::size_t received = 0;  // and what of a large one has come
  std::uint64_t id = 0;      // by which the sender knows that it is waited for; held: the notice behind it
  bool exact = false;        // the tag that came is the one that was asked for
  bool promised = false;     // the message has been announced, and will come by the id
};
using TransferPtr = std::shared_ptr<Transfer>;

}  // namespace passing::net
