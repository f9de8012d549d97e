// Messages from rank to rank over TCP: tagged, in order, straight into the buffer that waits for them.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "net/address.h"
#include "net/carrier.h"
#include "net/matching.h"
#include "net/proof.h"
#include "net/transfer.h"

namespace passing::net {

enum class FrameType : std::uint32_t;

/// All connections of one rank, over TCP. Two ranks connect on first use. Small messages are kept until
/// someone wants them; of large ones only the announcement is, and the data comes when there is a buffer for
/// it. docs/mesh.md has the frames, and why this is not UCX.
class Mesh : public Carrier {
 public:
  /// Others will reach it at `local`, with a port of the system's choice.
  static Expected<std::unique_ptr<Mesh>> create(std::uint32_t rank, std::uint32_t size,
                                                const SocketAddress& local);
  ~Mesh() override;

  std::string address() const override { return to_string(address_); }
  const SocketAddress& socket_address() const { return address_; }
  void introduce(std::vector<SocketAddress> addresses, std::uint64_t group, const Key& key = {});
  Expected<void> introduce(const std::vector<std::string>& addresses, std::uint64_t group,
                           const Key& key) override;

  TransferPtr send(std::uint32_t to, std::uint64_t tag, const void* data, std::size_t bytes) override;
  void send_notice(std::uint32_t to, std::uint64_t tag, std::string data, bool urgent) override;
  /// `sure`: the sender is told at once, and need not ask.
  TransferPtr recv(std::uint32_t from, std::uint64_t tag, std::uint64_t mask, void* data, std::size_t bytes,
                   bool sure) override;
  using Carrier::recv;
  void cancel(const TransferPtr& transfer) override;
  std::optional<Message> take(std::uint64_t tag, std::uint64_t mask) override;
  void detach() override;

  void progress() override;
  bool glance(std::uint32_t rank) override;
  /// Everything for one rank with one call of the system.
  void flush() override;
  bool arm() override {
    flush();
    return true;
  }
  int descriptor() const override { return events_; }
  std::vector<LostPeer> take_lost() override { return std::exchange(lost_, {}); }
  bool has_lost() const override { return !lost_.empty(); }
  const Refused& refused() const override { return refused_; }
  const std::optional<Error>& fault() const override { return fault_; }
  bool connected(std::uint32_t rank) const override { return outgoing_[rank] != nullptr; }
  /// Messages and announcements that wait for a receive.
  std::size_t kept() const { return arrived_.size(); }
  std::size_t sends_pending() const override { return sends_; }

 private:
  struct Connection;
  struct Frame;
  // A message, or the announcement of one, that came before its recv.
  struct Arrived {
    std::uint64_t tag = 0;
    std::uint64_t bytes = 0;
    std::string data;                  // of a small one
    Connection* connection = nullptr;  // whom to answer, or to give credit back
    bool announced = false;
    std::uint64_t id = 0;  // of an announced one
  };

  Mesh() = default;
  Expected<void> listen(const SocketAddress& local);
  Connection& connection_to(std::uint32_t rank);
  Connection& dial(std::uint32_t rank, FrameType first);
  void connect(Connection& connection);
  void adopt(Connection& connection);
  void close_socket(Connection& connection);
  void hang_up(Connection& connection);
  Connection& add(int descriptor);
  bool listen_to(Connection& connection);
  void watch(Connection& connection);
  void lose(Connection& connection, const std::string& reason);
  void own_fault(const char* what);
  void end(Transfer& transfer, Transfer::Status status);

  // mesh_strangers.cc
  void accept_some();
  bool take_in(int descriptor);
  void refuse(Connection& stranger, std::uint64_t Refused::*reason);
  void send_away(Connection& stranger, std::uint64_t Refused::*reason);
  void no_stranger_any_more(Connection& connection);
  void pause_listening();
  void resume_listening();
  void on_timer();
  void look_at_clock();
  void set_timer();

  // mesh_hello.cc
  void challenge(Connection& connection);
  void greet(Connection& connection, FrameType type, std::uint64_t id, const void* data, std::size_t bytes);
  bool write_greeting(Connection& connection);
  void on_greeting_header(Connection& connection);
  void on_greeting(Connection& connection);
  void on_challenge(Connection& connection);
  void on_hello(Connection& connection);
  void on_welcome(Connection& connection);
  void broke_off(Connection& connection, int error);
  void dial_again(Connection& connection, const std::string& reason);

  // mesh_send.cc
  void touch(Connection& connection);
  void push(Connection& connection, Frame frame);
  void dispatch(Connection& connection, const TransferPtr& transfer);
  void send_data(Connection& connection, FrameType type, std::uint64_t id, const TransferPtr& transfer);
  void write(Connection& connection);
  static std::size_t gather(const Connection& connection, std::span<iovec> parts);
  void written(Connection& connection, std::size_t bytes);

  // mesh_credit.cc
  static bool has_credit(const Connection& connection, const Transfer& transfer);
  static bool is_expected(const Connection& connection, const Transfer& transfer);
  static bool is_announced(const Connection& connection, std::uint64_t tag);
  static bool may_go(const Connection& connection, const Transfer& transfer);
  static bool must_wait(const Connection& connection, const Transfer& transfer);
  void hold(Connection& connection, const TransferPtr& transfer);
  void let_notices_go(Connection& connection, const Transfer& released);
  void tell_held(Connection& connection, std::uint64_t tag);
  bool release(Connection& connection, std::uint64_t tag, bool due);
  void release_in_order(Connection& connection);
  void let_go(Connection& connection, std::uint64_t tag);
  void answered(Connection& connection, const Transfer& transfer);
  void give_back(Connection* connection, std::size_t bytes);
  void on_credit(Connection& connection, std::size_t amount);
  void on_held(Connection& connection);
  void on_ask(Connection& connection);
  void ask_for(const Transfer& transfer);

  // mesh_frames.cc
  bool read(Connection& connection);
  void use_stash(Connection& connection);
  void took(Connection& connection, std::size_t bytes);
  static std::span<std::byte> payload_room(Connection& connection);
  void bad_frame(Connection& connection);
  void on_header(Connection& connection);
  bool on_large(Connection& connection);
  void on_payload(Connection& connection);
  void on_announced(Connection& connection, std::uint64_t id, const TransferPtr& transfer);
  void on_answer(Connection& connection, bool wanted);
  void on_expect(Connection& connection);
  TransferPtr wanted(std::uint64_t tag);
  void expect(const TransferPtr& transfer);

  std::uint32_t rank_ = 0;
  int events_ = -1;
  int listener_ = -1;
  int timer_ = -1;
  SocketAddress address_;
  std::vector<SocketAddress> addresses_;
  std::uint64_t group_ = 0;
  Key key_{};
  std::vector<Connection*> outgoing_;  // where messages to a rank go
  std::list<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> unwritten_;
  std::vector<Connection*> strangers_;  // the oldest first
  std::vector<Connection*> redials_;    // to be dialled again, the first first
  Time listen_again_ = 0;               // 0: it listens
  Time timer_at_ = 0;                   // 0: it is off
  bool some_broken_ = false;
  Refused refused_;
  Posted posted_;              // receives without a message
  Arrivals<Arrived> arrived_;  // messages without a receive
  std::vector<LostPeer> lost_;
  std::optional<Error> fault_;
  std::size_t sends_ = 0;
  std::size_t holders_ = 0;  // peers that hold something back and have not announced it
  std::uint64_t next_id_ = 1;
};

}  // namespace passing::net
