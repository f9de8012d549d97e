#include "strategy/hierarchical.h"

#include <fmt/format.h>

#include <algorithm>

namespace passing::strategy {
namespace {

// Beyond that lanes add work, and no speed.
constexpr std::size_t kMostLanes = 4;

}  // namespace

// One all-reduce under way: the ranks of the host give their inputs, owners of stripes sum them and send them
// across hosts leg by leg, and everyone takes the results as they come.
class Hierarchical::Passage {
 public:
  Passage(Hierarchical& owner, Context& context, const Call& call)
      : owner_(owner),
        context_(context),
        call_(call),
        across_(owner.goes_across() ? &owner.across(call) : nullptr),
        alone_(call.signature.type, call.signature.reduction) {
    const Signature& what = call.signature;
    if (owner_.host_) {
      const std::uint32_t owners = across_ != nullptr ? across_->owners(call) : 0;
      in_host_.emplace(*owner_.host_,
                       inhost::Call{.input = call.input,
                                    .output = call.output,
                                    .count = what.count,
                                    .type = what.type,
                                    .reduction = what.reduction,
                                    .deadline = call.deadline,
                                    .owners = owners},
                       across_ != nullptr);
      if (across_ != nullptr) stripe_ = in_host_->stripe();
    } else {
      const inhost::Cut cut(what.count, size_of(what.type), across_->owners(call), kAnySlot);
      if (owner_.hosts_.index < across_->owners(call)) stripe_ = cut.stripe(owner_.hosts_.index);
    }
    if (across_ != nullptr && stripe_.count > 0 && alone_.wide() != what.type)
      staging_.emplace(context.scratch(stripe_.count * size_of(alone_.wide())));
  }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  /// A round of everything that can be done now. False: nothing could.
  bool step();
  bool done() const { return (!in_host_ || in_host_->done()) && published_ == stripe_.count; }
  /// What it waits for of neighbours.
  inhost::Awaited awaited() const {
    return in_host_ ? in_host_->awaited(true, results_ > published_) : inhost::Awaited{};
  }
  void fail(const Error& error) { context_.problem(error); }

  // co_await passage
  bool await_ready() {
    owner_.passages_.push_back(this);
    owner_.restless_ = true;
    return false;
  }
  void await_suspend(std::coroutine_handle<> waiter) { waiter_ = waiter; }
  void await_resume() const {}
  void resume() { context_.resume(waiter_); }

 private:
  struct Flight {
    Leg leg;
    Task task;
    bool landed = false;
  };
  static constexpr std::size_t kAnySlot = std::size_t{1} << 40;

  std::size_t width() const { return size_of(call_.signature.type); }
  const std::byte* input(std::size_t element) const {
    return static_cast<const std::byte*>(call_.input) + (stripe_.first + element) * width();
  }
  std::byte* output(std::size_t element) const {
    return static_cast<std::byte*>(call_.output) + (stripe_.first + element) * width();
  }
  // Where sums of the stripe wait for their leg.
  std::byte* sums(std::size_t element) const {
    return staging_ ? staging_->get() + element * size_of(alone_.wide()) : output(element);
  }
  bool sum();
  bool is_next() const;
  bool launch();
  bool publish();
  Task fly(Flight& flight);

  Hierarchical& owner_;
  Context& context_;
  const Call& call_;
  Across* across_;  // none: one host, whose sums are the results
  inhost::Sum alone_;
  std::optional<inhost::Operation> in_host_;  // none: no neighbours
  inhost::Span stripe_;                       // what this rank carries across
  std::optional<Scratch> staging_;
  // How much of the stripe has been summed, launched, carried and published.
  std::size_t summed_ = 0;
  std::size_t launched_ = 0;
  std::size_t results_ = 0;
  std::size_t published_ = 0;
  std::deque<Flight> flights_;
  std::size_t next_ = 0;  // the first that has not landed
  std::coroutine_handle<> waiter_;
};

bool Hierarchical::Passage::step() {
  if (across_ == nullptr) return in_host_->progress();
  bool moved = in_host_ && in_host_->give();
  moved = sum() || moved;
  moved = launch() || moved;
  moved = publish() || moved;
  return (in_host_ && in_host_->take()) || moved;
}

bool Hierarchical::Passage::sum() {
  std::size_t count = 0;
  if (in_host_) {
    count = in_host_->ready().count;
    if (count > 0 && !in_host_->sum(count, sums(summed_))) return false;
  } else if (summed_ < stripe_.count) {
    count = stripe_.count;
    // The result is made elsewhere: the input itself will do.
    if (staging_) {
      const std::byte* source = input(0);
      alone_.add({&source, 1}, count, sums(0));
    }
  }
  summed_ += count;
  return count > 0;
}

// The switch knows operations by their order, so every host sends its legs in the order of calls: also where
// an earlier call has more of them than may be under way.
bool Hierarchical::Passage::is_next() const {
  for (const Passage* each : owner_.passages_) {
    if (each == this) break;
    if (each->across_ == across_ && each->launched_ < each->stripe_.count) return false;
  }
  return true;
}

bool Hierarchical::Passage::launch() {
  if (!is_next()) return false;
  const std::size_t most = across_->leg(call_);
  bool moved = false;
  while (launched_ < stripe_.count && flights_.size() - next_ < across_->legs_at_once()) {
    const std::size_t count = std::min(most, stripe_.count - launched_);
    if (launched_ + count > summed_) break;
    const void* from = in_host_ || staging_ ? sums(launched_) : input(launched_);
    flights_.push_back({{from, output(launched_), launched_, count}, {}, false});
    launched_ += count;
    Flight& flight = flights_.back();
    flight.task = fly(flight);
    flight.task.start();
    moved = true;
  }
  return moved;
}

Task Hierarchical::Passage::fly(Flight& flight) {
  co_await across_->carry(context_, call_, flight.leg);
  flight.landed = true;
  owner_.restless_ = true;
}

bool Hierarchical::Passage::publish() {
  for (; next_ < flights_.size() && flights_[next_].landed; ++next_) results_ += flights_[next_].leg.count;
  const std::size_t count = results_ - published_;
  if (count == 0) return false;
  const std::size_t through = in_host_ ? in_host_->publish(output(published_), count) : count;
  published_ += through;
  return through > 0;
}

Expected<std::uint32_t> lanes_of(const Setup& setup) {
  const std::size_t fewest = setup.hosts.fewest();
  const std::uint32_t asked = setup.config.lanes;
  if (asked <= fewest) return static_cast<std::uint32_t>(asked != 0 ? asked : std::min(fewest, kMostLanes));
  for (const auto& ranks : setup.hosts.ranks) {
    if (ranks.size() >= asked) continue;
    return passing::fail(ErrorCode::invalid_argument,
                         fmt::format("lanes is {}: must be 1 to {}, the number of ranks in the host of {}; 0 "
                                     "chooses",
                                     asked, ranks.size(), setup.names[ranks[0]]),
                         {static_cast<std::uint16_t>(ranks[0])});
  }
  return asked;
}

Task Hierarchical::all_reduce(Context& context, const Call& call) {
  Passage passage(*this, context, call);
  co_await passage;
}

// A round for each, so that what they have to send goes out between two pieces of a large tensor.
void Hierarchical::step_all() {
  restless_ = false;
  for (auto each = passages_.begin(); each != passages_.end();) {
    Passage& passage = **each;
    if (passage.step()) restless_ = true;
    if (!passage.done()) {
      ++each;
      continue;
    }
    each = passages_.erase(each);
    passage.resume();
  }
  if (host_ && !reported_ && !passages_.empty() && host_->trouble()) {
    reported_ = true;
    passages_.front()->fail(*host_->trouble());
  }
}

void Hierarchical::progress(std::span<const pollfd> /*sources*/) {
  if (host_ && asleep_) {
    host_->look();
    asleep_ = false;
  }
  step_all();
}

// The first of what all of them wait for, stage by stage.
inhost::Awaited Hierarchical::awaited() const {
  inhost::Awaited all;
  for (const Passage* each : passages_) {
    const inhost::Awaited one = each->awaited();
    for (std::size_t s = 0; s < inhost::kStages; ++s) all.least[s] = std::min(all.least[s], one.least[s]);
  }
  return all;
}

void Hierarchical::work_in_host(Duration limit) {
  const std::size_t before = passages_.size();
  Time end = 0;  // of a small one nobody asks for the time
  Duration left = limit;
  progress({});
  while (passages_.size() == before && !host_->trouble()) {
    if (!restless_) {
      if (left <= 0) {
        host_->look();  // a neighbour may have died: nobody else looks meanwhile
        return step_all();
      }
      host_->nap(awaited(), left);
    }
    step_all();
    if (passages_.size() != before) return;
    if (end == 0) end = inhost::now() + limit;
    left = end - inhost::now();
  }
}

void Hierarchical::wait_on(std::vector<pollfd>& sources) {
  if (!host_ || reported_) return;
  if (!restless_) {
    asleep_ = true;
    // With nobody to be told, a neighbour's death is no reason to stay awake.
    restless_ = !host_->sleep(awaited()) && !passages_.empty();
  }
  sources.push_back({host_->descriptor(), POLLIN, 0});
}

std::optional<Time> Hierarchical::next_timer() const {
  return restless_ ? std::optional<Time>(0) : std::nullopt;
}

}  // namespace passing::strategy
