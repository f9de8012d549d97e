// What a collective may use: messages to other ranks, and a way to say that something is wrong.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"
#include "net/carrier.h"
#include "strategy/call.h"
#include "strategy/scratch.h"

namespace passing::strategy {

/// Tags of messages: class, number of the operation, channel, hash of its signature, source. A receiver
/// leaves the hash open and looks at it afterwards. Messages of one channel keep their order.
namespace tags {
constexpr std::uint64_t kCollective = std::uint64_t{1} << 60;
constexpr std::uint64_t kPoint = std::uint64_t{2} << 60;  // send and recv: 31 bits of the user's, source
constexpr std::uint64_t kControl = std::uint64_t{3} << 60;
constexpr std::uint64_t kCall = std::uint64_t{4} << 60;  // to a server: what is called
constexpr std::uint64_t kClassMask = std::uint64_t{15} << 60;
constexpr std::uint64_t kHashMask = std::uint64_t{0xFFFFF} << 16;
constexpr std::uint64_t kSourceMask = 0xFFFF;
constexpr std::uint64_t kAllMask = ~std::uint64_t{0};

constexpr std::uint64_t collective(std::uint64_t number, std::uint32_t channel, std::uint32_t hash,
                                   std::uint32_t source) {
  return kCollective | (number & 0xFFFFF) << 40 | std::uint64_t{channel & 0xF} << 36 |
         std::uint64_t{hash & 0xFFFFF} << 16 | source;
}
constexpr std::uint64_t point(std::uint32_t tag, std::uint32_t source) {
  return kPoint | std::uint64_t{tag} << 16 | source;
}
constexpr std::uint32_t source(std::uint64_t tag) { return tag & 0xFFFF; }
}  // namespace tags

/// What the collectives of one communicator share. The communicator owns it.
struct Ground {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  net::Carrier* carrier = nullptr;
  std::vector<bool> contacts;                 ///< who may have a connection with this rank
  std::deque<std::coroutine_handle<>> ready;  ///< to be resumed by the communicator's thread
  ScratchPool scratch;
};

/// A message that can be awaited: co_await continues when it has come, or has gone. If it never will, the
/// communicator has been told, and the task is not resumed.
class Transit {
 public:
  bool await_ready() const { return state_->good; }
  void await_suspend(std::coroutine_handle<> waiter) { state_->waiter = waiter; }
  void await_resume() const {}

 private:
  friend class Context;
  struct State {
    bool good = false;
    std::coroutine_handle<> waiter;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// One collective's view. Lives as long as its task.
class Context {
 public:
  /// `problem` is told of the first thing that goes wrong.
  Context(Ground& ground, const Call& call, std::function<void(Error)> problem,
          std::function<void(const net::Transfer&)> broken_transfer)
      : ground_(ground),
        number_(call.number),
        hash_(call.signature.hash()),
        problem_(std::move(problem)),
        broken_transfer_(std::move(broken_transfer)) {}

  std::uint32_t rank() const { return group_.empty() ? ground_.rank : place_; }
  std::uint32_t size() const {
    return group_.empty() ? ground_.size : static_cast<std::uint32_t>(group_.size());
  }
  /// From now on ranks are places in this group, which this rank is in.
  void narrow(std::vector<std::uint32_t> group);

  /// Messages between two ranks keep their order, in each of the 16 channels. Empty ones are sent too.
  Transit send(std::uint32_t to, const void* data, std::size_t bytes, std::uint32_t channel = 0) {
    if (!group_.empty()) to = group_[to];
    return follow(
        ground_.carrier->send(to, tags::collective(number_, channel, hash_, ground_.rank), data, bytes));
  }
  Transit recv(std::uint32_t from, void* data, std::size_t bytes, std::uint32_t channel = 0) {
    return follow(expect(from, data, bytes, channel));
  }
  /// The same, for bytes from `at` on of a part that has `whole`.
  Transit recv_piece(std::uint32_t from, void* part, std::size_t at, std::size_t bytes, std::size_t whole) {
    const net::TransferPtr transfer = expect(from, static_cast<std::byte*>(part) + at, bytes, 0);
    transfer->before = at;
    transfer->whole = whole;
    return follow(transfer);
  }
  /// Memory that is not initialised.
  Scratch scratch(std::size_t bytes) { return ground_.scratch.take(bytes); }
  /// Tells a server what is called.
  void describe_to(std::uint32_t server, const Call& call) {
    ground_.carrier->send_urgent(server, tags::kCall | ground_.rank, call.encode());
  }

  void problem(Error error) { problem_(std::move(error)); }
  /// Has the communicator's thread resume a waiter.
  void resume(std::coroutine_handle<> waiter) { ground_.ready.push_back(waiter); }
  /// Ranks from which messages are outstanding.
  const std::multiset<std::uint32_t>& waiting_for() const { return waiting_for_; }

 private:
  net::TransferPtr expect(std::uint32_t from, void* data, std::size_t bytes, std::uint32_t channel) {
    if (!group_.empty()) from = group_[from];
    waiting_for_.insert(from);
    ground_.contacts[from] = true;
    return ground_.carrier->recv(from, tags::collective(number_, channel, hash_, from),
                                 tags::kAllMask & ~tags::kHashMask, data, bytes, true);
  }
  Transit follow(const net::TransferPtr& transfer);
  void ended(const net::Transfer& transfer, Transit::State& state);

  Ground& ground_;
  const std::uint64_t number_;
  const std::uint32_t hash_;
  std::function<void(Error)> problem_;
  std::function<void(const net::Transfer&)> broken_transfer_;
  std::multiset<std::uint32_t> waiting_for_;
  std::vector<std::uint32_t> group_;  // empty: all ranks
  std::uint32_t place_ = 0;
};

}  // namespace passing::strategy
