// A member's way to the switch, for strategies.
#pragma once

#include <poll.h>

#include <coroutine>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "net/member.h"
#include "strategy/context.h"
#include "strategy/task.h"

namespace passing::strategy {

/// At a deadline the switch is asked who is missing; ranks have asked each other by then.
constexpr Duration kAskSwitch = 350 * kMillisecond;
constexpr Duration kPatience = kAskSwitch + 150 * kMillisecond;

/// Used by the communicator's thread only.
class Uplink {
 public:
  /// Returns when all members have joined. `ranks` says which rank each member is, if not the same.
  static Expected<std::unique_ptr<Uplink>> join(const net::Member::Options& options,
                                                std::vector<std::uint32_t> ranks = {});

  /// Whether the switch sums such tensors: docs/numerics.md section 8.
  static bool takes(const Signature& what);
  /// Submits the operation at once, in the order of these calls; its type and reduction are `what`'s.
  Task sum(Context& context, const Signature& what, endpoint::Operation operation);

  /// All members must submit in the same order. Those who have to wait for something first take a number,
  /// wait for their turn, submit, and call the next.
  std::uint64_t take_number() { return next_number_++; }
  auto turn(Context& context, std::uint64_t number) {
    struct Turn {
      Uplink& owner;
      Context& context;
      std::uint64_t number;
      bool await_ready() const { return owner.turn_ == number; }
      void await_suspend(std::coroutine_handle<> who) { owner.queue_.insert({number, {&context, who}}); }
      void await_resume() const {}
    };
    return Turn{*this, context, number};
  }
  void call_next();

  void wait_on(std::vector<pollfd>& sources) const { member_->wait_on(sources); }
  void progress(std::span<const pollfd> sources);
  std::optional<Time> next_timer() const { return unsent_ ? std::optional<Time>(0) : member_->next_timer(); }
  /// The deadline of what is under way has come: the switch shall say who is missing.
  void expire() {
    member_->expire();
    unsent_ = true;
  }
  void leave();
  /// Lets go of all buffers. The controller is told when this is destroyed.
  void abandon(const Error& reason);

 private:
  // Waits for one operation of the member.
  struct Sum {
    Uplink& owner;
    Context& context;
    std::uint64_t number;
    std::coroutine_handle<> waiter = nullptr;

    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> who) {
      waiter = who;
      owner.sums_.emplace(number, this);
    }
    void await_resume() const {}
  };

  Uplink(std::unique_ptr<net::Member> member, std::vector<std::uint32_t> ranks)
      : member_(std::move(member)), ranks_(std::move(ranks)) {}

  std::unique_ptr<net::Member> member_;
  std::vector<std::uint32_t> ranks_;
  std::unordered_map<std::uint64_t, Sum*> sums_;
  std::uint64_t next_number_ = 0;
  std::uint64_t turn_ = 0;
  std::unordered_map<std::uint64_t, std::pair<Context*, std::coroutine_handle<>>> queue_;  // by number
  bool failed_ = false;
  bool unsent_ = false;  // something has been submitted since the last progress()
};

/// The settings that all members of a communicator have in common.
struct Setup;
net::Member::Options member_options(const Setup& setup);

}  // namespace passing::strategy
