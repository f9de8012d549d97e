// What carries the bulk between ranks: messages of any length, straight into the buffer that waits for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "net/proof.h"
#include "net/transfer.h"

namespace passing::net {

/// Up to here a message is sent at once, and kept by the receiver if nobody waits for it.
constexpr std::size_t kSmall = 16 << 10;
/// So much of such messages may be at a receiver, or on the way to it, without a receive that takes them:
/// what 25 Gbit/s carry in a millisecond. With 1,000 peers that is 4 GB, if all send and nobody receives.
constexpr std::size_t kCredit = 4 << 20;
/// What a message costs beside its bytes, since empty ones need memory too.
constexpr std::size_t kRecord = 256;

/// Whose connection broke, and how.
struct LostPeer {
  std::uint32_t rank = 0;
  std::string reason;
};

/// A message that nobody had asked for.
struct Message {
  std::uint64_t tag = 0;
  std::string data;
};

/// Connections that ended before they were known to be a peer's, by what ended them.
struct Refused {
  std::uint64_t garbage = 0;        ///< they spoke another protocol, or said what nobody may say there
  std::uint64_t other_version = 0;  ///< they spoke another version of the protocol
  std::uint64_t other_group = 0;    ///< they said hello to another group
  std::uint64_t unproven = 0;       ///< they did not know the key of the group
  std::uint64_t late = 0;           ///< they had not said a whole hello in time
  std::uint64_t too_many = 0;       ///< the oldest, when there were too many or no descriptor was left
  std::uint64_t left = 0;           ///< they went by themselves
  std::uint64_t waiting = 0;        ///< not taken, and not for what they did: this process lacked something
};

/// Memory that a carrier knows. It is forgotten when this goes, which must be before the carrier does.
class Registration {
 public:
  virtual ~Registration() = default;
};

/// One rank's way to all others, and to servers, whose numbers follow those of the ranks. Owned by one thread
/// at a time, which waits for descriptor() to be readable after arm(), and then calls progress().
/// docs/mesh.md says what every carrier promises; tests/carrier asks all of them.
class Carrier {
 public:
  /// As detach().
  virtual ~Carrier() = default;
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  /// Where others reach this rank, as introduce() takes it.
  virtual std::string address() const = 0;
  /// Everyone's addresses, by rank. Whoever does not know the same `group` and `key` is refused. Again, with
  /// more of them, once servers are known.
  virtual Expected<void> introduce(const std::vector<std::string>& addresses, std::uint64_t group,
                                   const Key& key) = 0;

  /// Memory from which much will be sent, or into which much will be received. A carrier that needs no
  /// preparation gives nothing back.
  virtual Expected<std::unique_ptr<Registration>> enrol(void* /*data*/, std::size_t /*bytes*/) {
    return nullptr;
  }

  /// The transfer ends when the data may be changed, not when it has arrived.
  virtual TransferPtr send(std::uint32_t to, std::uint64_t tag, const void* data, std::size_t bytes) = 0;
  /// A small message that costs no credit, for take(). `urgent`: it goes before whatever else waits to be
  /// sent to that rank; else what was sent before comes before it.
  virtual void send_notice(std::uint32_t to, std::uint64_t tag, std::string data, bool urgent) = 0;
  void send_urgent(std::uint32_t to, std::uint64_t tag, std::string data) {
    send_notice(to, tag, std::move(data), true);
  }
  /// From anyone, if `from` is this rank. Takes the first message whose tag is `tag` where `mask` has ones.
  /// It must have `bytes` bytes. `sure`: it will not be cancelled, and one with just this tag is expected.
  /// Receives that one message would fit are all sure, or none is.
  virtual TransferPtr recv(std::uint32_t from, std::uint64_t tag, std::uint64_t mask, void* data,
                           std::size_t bytes, bool sure) = 0;
  TransferPtr recv(std::uint32_t from, std::uint64_t tag, std::uint64_t mask, void* data, std::size_t bytes) {
    return recv(from, tag, mask, data, bytes, false);
  }
  /// Has an effect on a recv that has no message yet.
  virtual void cancel(const TransferPtr& transfer) = 0;
  /// A small message with such a tag that has come and that no recv asked for.
  virtual std::optional<Message> take(std::uint64_t tag, std::uint64_t mask) = 0;
  /// Drops what is under way, without ending it: no buffer is used any more. Nothing else may follow.
  virtual void detach() = 0;

  /// Takes what has come, and sends what it can.
  virtual void progress() = 0;
  /// Takes what has come from one rank, without asking whether there is something. False: there was nothing.
  virtual bool glance(std::uint32_t rank) = 0;
  /// Sends what has been given to it since.
  virtual void flush() = 0;
  /// Before a wait: flushes, and sees to it that descriptor() becomes readable when something comes. False:
  /// something has come already.
  virtual bool arm() = 0;
  virtual int descriptor() const = 0;

  /// Peers whose connection broke since the last call.
  virtual std::vector<LostPeer> take_lost() = 0;
  virtual bool has_lost() const = 0;
  /// Who came and was not let in. Where strangers cannot come, nobody.
  virtual const Refused& refused() const {
    static const Refused nobody;
    return nobody;
  }
  /// What the system has refused this process: not a peer's fault.
  virtual const std::optional<Error>& fault() const = 0;
  /// This rank has sent to it, or may have been sent to.
  virtual bool connected(std::uint32_t rank) const = 0;
  /// Sends that have not ended.
  virtual std::size_t sends_pending() const = 0;

 protected:
  Carrier() = default;
};

}  // namespace passing::net
