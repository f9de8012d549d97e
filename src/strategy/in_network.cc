// Every rank is a member of the switch, which sums.
#include <algorithm>
#include <unordered_map>

#include "net/member.h"
#include "strategy/reduce.h"
#include "strategy/strategy.h"

namespace passing::strategy {
namespace {

numeric::DataType to_numeric(DataType type) {
  switch (type) {
    case DataType::float32: return numeric::DataType::float32;
    case DataType::float16: return numeric::DataType::float16;
    case DataType::bfloat16: return numeric::DataType::bfloat16;
    case DataType::int32: return numeric::DataType::int32;
    default: break;
  }
  return numeric::DataType::none;
}

class InNetwork : public Strategy {
 public:
  explicit InNetwork(std::unique_ptr<net::Member> member) : member_(std::move(member)) {}

  Task all_reduce(Context& context, const Call& call) override;
  bool has_sources() const override { return true; }
  void wait_on(std::vector<pollfd>& sources) override { member_->wait_on(sources); }
  void progress(std::span<const pollfd> sources) override;
  std::optional<Time> next_timer() const override { return member_->next_timer(); }
  bool watches_deadlines(const Call& call) const override {
    return route(call.signature.type, call.signature.reduction) == Route::network;
  }
  void leave() override;
  void abandon(const Error& reason) override;

 private:
  // Waits for one operation of the member.
  struct Sum {
    InNetwork& owner;
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

  Task switched(Context& context, const Call& call);

  std::unique_ptr<net::Member> member_;
  std::unordered_map<std::uint64_t, Sum*> sums_;
  bool failed_ = false;
};

Task InNetwork::all_reduce(Context& context, const Call& call) {
  // What the switch cannot sum goes from rank to rank.
  return route(call.signature.type, call.signature.reduction) == Route::network
             ? switched(context, call)
             : ring_all_reduce(context, call);
}

Task InNetwork::switched(Context& context, const Call& call) {
  const auto number = member_->submit({.type = to_numeric(call.signature.type),
                                       .reduction = call.signature.reduction == Reduction::average
                                                        ? numeric::Reduction::average
                                                        : numeric::Reduction::sum,
                                       .elements = call.signature.count,
                                       .divisor = context.size(),
                                       .input = call.input,
                                       .output = call.output,
                                       .deadline = call.deadline});
  if (!number) {
    context.problem(number.error());
    co_await std::suspend_always();
  }
  Sum sum{*this, context, *number};
  co_await sum;
}

void InNetwork::progress(std::span<const pollfd> sources) {
  member_->progress(sources);
  while (auto done = member_->next_completion()) {
    const auto found = sums_.find(done->number);
    if (found == sums_.end()) continue;
    Sum& sum = *found->second;
    sums_.erase(found);
    if (done->outcome) {
      sum.context.resume(sum.waiter);
    } else {
      failed_ = true;
      sum.context.problem(done->outcome.error());
    }
  }
}

void InNetwork::leave() {
  // With everyone else, if they come soon.
  if (failed_) {
    member_->quit();
  } else {
    member_->part(kSecond);
  }
}

void InNetwork::abandon(const Error& reason) {
  member_->end(reason);
  member_->quit();
}

}  // namespace

Expected<std::unique_ptr<Strategy>> make_in_network(const Setup& setup) {
  const Config& config = setup.config;
  auto member =
      net::Member::join({.controller = config.controller,
                         .job = config.job,
                         .token = config.token,
                         .size = config.size,
                         .rank = config.rank,
                         .lanes = config.lanes,
                         .slots = config.slots,
                         // All ranks have met: whoever still has a place in the job is of an earlier group.
                         .rejoin = true,
                         .names = setup.names,
                         .join_timeout = config.create_timeout.count() * kMillisecond});
  if (!member) return tl::unexpected(member.error());
  return std::make_unique<InNetwork>(std::move(*member));
}

}  // namespace passing::strategy
