// Every rank is a member of the switch, which sums.
#include "strategy/strategy.h"
#include "strategy/uplink.h"

namespace passing::strategy {
namespace {

class InNetwork : public Strategy {
 public:
  explicit InNetwork(std::unique_ptr<Uplink> uplink) : uplink_(std::move(uplink)) {}

  Task all_reduce(Context& context, const Call& call) override {
    // What the switch cannot sum goes from rank to rank.
    if (!Uplink::takes(call.signature)) return ring_all_reduce(context, call);
    return uplink_->sum(context, call.signature,
                        {.elements = call.signature.count,
                         .divisor = context.size(),
                         .input = call.input,
                         .output = call.output,
                         .deadline = call.deadline});
  }

  bool has_sources() const override { return true; }
  void wait_on(std::vector<pollfd>& sources) override { uplink_->wait_on(sources); }
  void progress(std::span<const pollfd> sources) override { uplink_->progress(sources); }
  std::optional<Time> next_timer() const override { return uplink_->next_timer(); }
  Duration patience(const Call& call) const override { return Uplink::takes(call.signature) ? kPatience : 0; }
  void expire() override { uplink_->expire(); }
  void leave() override { uplink_->leave(); }
  void abandon(const Error& reason) override { uplink_->abandon(reason); }

 private:
  std::unique_ptr<Uplink> uplink_;
};

}  // namespace

Expected<std::unique_ptr<Strategy>> make_in_network(const Setup& setup) {
  net::Member::Options options = member_options(setup);
  auto uplink = Uplink::join(options);
  if (!uplink) return tl::unexpected(uplink.error());
  return std::make_unique<InNetwork>(std::move(*uplink));
}

}  // namespace passing::strategy
