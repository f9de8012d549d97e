// Messages between ranks that are threads of one process: no sockets, and large data is copied once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "net/carrier.h"
#include "net/matching.h"

namespace passing::net {

/// Each rank has an inbox, into which others put what they have for it. A small message is copied into it. Of
/// a large one, or beyond the credit, it gets an offer: the receiver copies from the sender's buffer, and
/// says so. For tests, and to copy from for whoever writes another carrier (docs/mesh.md). One limit: where
/// memory runs out within a collective, its own buffers go before this hears of it, and a receiver may be
/// reading them.
class MemoryCarrier : public Carrier {
 public:
  /// Of `size` ranks.
  static Expected<std::unique_ptr<MemoryCarrier>> create(std::uint32_t rank, std::uint32_t size);
  ~MemoryCarrier() override;

  /// "memory:", then what names this process, and the inbox in it.
  std::string address() const override;
  Expected<void> introduce(const std::vector<std::string>& addresses, std::uint64_t group,
                           const Key& key) override;

  TransferPtr send(std::uint32_t to, std::uint64_t tag, const void* data, std::size_t bytes) override;
  void send_notice(std::uint32_t to, std::uint64_t tag, std::string data, bool urgent) override;
  TransferPtr recv(std::uint32_t from, std::uint64_t tag, std::uint64_t mask, void* data, std::size_t bytes,
                   bool sure) override;
  using Carrier::recv;
  void cancel(const TransferPtr& transfer) override;
  std::optional<Message> take(std::uint64_t tag, std::uint64_t mask) override;
  /// Waits for those who copy from a buffer of this rank.
  void detach() override;

  /// At most a few at a time: the caller has other things to look at too.
  void progress() override { static_cast<void>(work()); }
  bool glance(std::uint32_t /*rank*/) override { return work(); }
  void flush() override {}
  /// The descriptor is readable as long as something is in the inbox, so there is nothing to prepare.
  bool arm() override { return true; }
  int descriptor() const override;

  std::vector<LostPeer> take_lost() override { return std::exchange(lost_, {}); }
  bool has_lost() const override { return !lost_.empty(); }
  const std::optional<Error>& fault() const override { return fault_; }
  bool connected(std::uint32_t rank) const override { return peers_[rank].line != nullptr; }
  std::size_t sends_pending() const override { return sends_; }

 private:
  struct Inbox;
  struct Line;
  struct Offer;
  struct Post;
  struct Unread;
  struct Peer {
    std::shared_ptr<Inbox> inbox;  // none until it is introduced
    std::shared_ptr<Line> line;    // none until something goes there, or has come from there
    bool lost = false;
    std::map<std::uint64_t, std::pair<TransferPtr, std::shared_ptr<Offer>>> offered;  // in order, by id
  };

  MemoryCarrier() = default;
  std::shared_ptr<Line> new_line() const;
  void connect(Peer& peer);
  void put(Peer& peer, Post post, bool urgent = false);
  bool work();
  void handle(Post post);
  void find_deserters();
  void lose_deserters();
  void match(const TransferPtr& transfer, Post& post);
  void lose(std::uint32_t rank, const std::string& reason);
  void end(Transfer& transfer, Transfer::Status status);

  std::uint32_t rank_ = 0;
  std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<Unread> unread_;
  std::vector<Peer> peers_;
  bool introduced_ = false;
  std::uint64_t group_ = 0;
  Key key_{};
  Posted posted_;                         // receives without a message
  Arrivals<Post> arrived_;                // messages without a receive
  std::vector<std::uint32_t> deserters_;  // what they have said is in the inbox, or has been taken out
  std::vector<LostPeer> lost_;
  std::optional<Error> fault_;  // there is none: nothing is asked of the system
  std::size_t sends_ = 0;
  std::uint64_t next_id_ = 1;
};

}  // namespace passing::net
