#include "inhost/operation.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "wire/wire.h"

namespace passing::inhost {
namespace {

constexpr std::size_t kBlock = PASSING_BLOCK_ELEMENTS;
// Up to here it is faster if everyone sums everything than to wait for the sums of others.
constexpr std::size_t kDirectBytes = 16 << 10;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

Cut::Cut(std::size_t count, std::size_t width, std::size_t owners, std::size_t slot_bytes)
    : count_(count), width_(width), owners_(owners), blocks_(divide_up(count, kBlock)) {
  const std::size_t longest = divide_up(blocks_, owners);
  const std::size_t most = slot_bytes / (owners * kBlock * width);
  PASSING_ASSERT(most > 0);
  pieces_ = std::max<std::uint64_t>(1, divide_up(longest, most));
  run_ = divide_up(longest, pieces_) * kBlock;
}

Span Cut::stripe(std::size_t owner) const {
  const std::size_t first = std::min(count_, blocks_ * owner / owners_ * kBlock);
  return {first, std::min(count_, blocks_ * (owner + 1) / owners_ * kBlock) - first};
}

Span Cut::in_piece(std::size_t owner, std::uint64_t piece) const {
  const Span all = stripe(owner);
  const std::size_t begin = std::min(all.count, piece * run_);
  return {all.first + begin, std::min(run_, all.count - begin)};
}

Operation::Operation(Host& host, const Call& call, bool relayed)
    : host_(host),
      call_(call),
      sum_(call.type, call.reduction),
      width_(size_of(call.type)),
      relayed_(relayed),
      direct_(!relayed && call.owners == 0 && call.count <= kDirectBytes / width_),
      owners_(call.owners == 0 ? host.size() : std::min<std::size_t>(call.owners, host.size())),
      cut_(call.count, width_, direct_ ? 1 : owners_, host.settings().slot_bytes) {
  std::tie(number_, first_) = host_.enqueue(cut_.pieces());
}

bool Operation::give() {
  const std::uint64_t piece = first_ + given_;
  if (given_ == cut_.pieces() || host_.count(given) != piece) return false;
  if (piece >= kSlots && !host_.reached(added, piece - kSlots + 1)) return false;

  const std::size_t bytes = call_.count * width_;
  const std::uint64_t where = direct_ || bytes == 0 ? kNowhere : host_.offset(call_.input, bytes);
  host_.description(host_.index(), piece) = {
      .operation = number_,
      .index = given_,
      .count = call_.count,
      .input = where,
      .output = direct_ || bytes == 0 ? kNowhere : host_.offset(call_.output, bytes),
      .type = static_cast<std::uint32_t>(call_.type),
      .reduction = static_cast<std::uint32_t>(call_.reduction),
      .owners = static_cast<std::uint32_t>(owners_),
      .relayed = relayed_ ? 1U : 0U,
  };
  if (direct_) {
    move_bytes(host_.slot(host_.index(), piece), input(0), bytes);
  } else if (where == kNowhere) {
    // The own stripe is read where it is.
    for (std::size_t owner = 0; owner < owners_; ++owner) {
      if (owner == host_.index()) continue;
      const Span span = cut_.in_piece(owner, given_);
      move_bytes(host_.slot(host_.index(), piece) + cut_.offset(owner), input(span.first),
                 span.count * width_);
    }
  }
  if (!pass(given, given_)) return false;
  pass_empty();
  return true;
}

// One piece more is through that stage. False: it is not, and never will be.
bool Operation::pass(Stage stage, std::uint64_t& through) {
  if (!host_.advance(stage)) return false;
  ++through;
  return true;
}

// Where this rank has nothing to sum it only checks that all have called the same.
void Operation::pass_empty() {
  if (direct_) return;
  while (added_ < given_ && own(added_).count == 0 && may_add()) {
    if (!agree(first_ + added_) || !pass(added, added_)) return;
  }
  while (summed_ < added_ && own(summed_).count == 0 && host_.count(summed) == first_ + summed_) {
    if (!pass(summed, summed_)) return;
  }
}

// The next piece is there to be summed: all have given it, and this rank is through with earlier ones.
bool Operation::may_add() const {
  const std::uint64_t piece = first_ + added_;
  return added_ < given_ && host_.count(added) == piece && host_.reached(given, piece + 1);
}

// The slot for the results of the next piece is free.
bool Operation::may_publish() const {
  const std::uint64_t piece = first_ + summed_;
  return host_.count(summed) == piece && (piece < kSlots || host_.reached(taken, piece - kSlots + 1));
}

bool Operation::agree(std::uint64_t piece) {
  const Description& own = host_.description(host_.index(), piece);
  const std::size_t bytes = call_.count * width_;
  for (std::size_t i = 0; i < host_.size(); ++i) {
    const Description& other = host_.description(i, piece);
    const auto inside = [&](std::uint64_t offset) {
      return offset == kNowhere ||
             (offset <= host_.settings().shared_bytes && bytes <= host_.settings().shared_bytes - offset);
    };
    if (other.operation == own.operation && other.index == own.index && other.count == own.count &&
        other.type == own.type && other.reduction == own.reduction && other.owners == own.owners &&
        other.relayed == own.relayed && inside(other.input) && inside(other.output)) {
      outputs_[i] = other.output;
      continue;
    }
    host_.report(ErrorCode::disagreement, std::uint64_t{1} << host_.index() | std::uint64_t{1} << i, piece);
    return false;
  }
  return true;
}

void Operation::find_sources(std::uint64_t piece, Span span, Sources& sources) {
  const std::size_t in_slot =
      direct_ ? 0 : cut_.offset(host_.index()) + (span.first - own(piece - first_).first) * width_;
  for (std::size_t i = 0; i < host_.size(); ++i) {
    const std::uint64_t where = host_.description(i, piece).input;
    if (i == host_.index()) {
      sources[i] = input(span.first);
    } else if (where != kNowhere) {
      sources[i] = host_.part(i) + where + span.first * width_;
    } else {
      sources[i] = host_.slot(i, piece) + in_slot;
    }
  }
}

Span Operation::ready() {
  pass_empty();
  if (direct_ || !may_add()) return {};
  const Span span = own(added_);
  if (added_elements_ == 0 && !agree(first_ + added_)) return {};
  return {span.first + added_elements_, span.count - added_elements_};
}

bool Operation::sum(std::size_t count, void* out) {
  const std::uint64_t piece = first_ + added_;
  const Span span = own(added_);
  Sources sources;
  find_sources(piece, {span.first + added_elements_, count}, sources);
  sum_.add({sources.data(), host_.size()}, count, out);
  added_elements_ += count;
  if (added_elements_ < span.count) return !host_.closed();
  if (!pass(added, added_)) return false;
  added_elements_ = 0;
  pass_empty();
  return true;
}

// To the slot for those who will copy it, and to where it belongs in shared memory.
void Operation::spread(Span span, const std::byte* results) {
  const std::uint64_t piece = first_ + summed_;
  if (host_.closed()) return;  // others may use their buffers for something else by now
  const std::size_t bytes = span.count * width_;
  bool wanted = false;
  for (std::size_t i = 0; i < host_.size(); ++i) {
    if (i == host_.index()) continue;
    const std::uint64_t where = outputs_[i];
    wanted = wanted || where == kNowhere;
    if (where != kNowhere) move_bytes(host_.part(i) + where + span.first * width_, results, bytes);
  }
  if (wanted) {
    move_bytes(host_.results(host_.index(), piece) + (span.first - own(summed_).first) * width_, results,
               bytes);
  }
}

std::size_t Operation::publish(const void* results, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(results);
  std::size_t done = 0;
  while (done < count && may_publish()) {
    const Span span = own(summed_);
    const Span part{span.first + summed_elements_, std::min(count - done, span.count - summed_elements_)};
    move_bytes(output(part.first), from + done * width_, part.count * width_);
    spread(part, from + done * width_);
    done += part.count;
    summed_elements_ += part.count;
    if (summed_elements_ == span.count) {
      if (!pass(summed, summed_)) return done;
      summed_elements_ = 0;
      pass_empty();
    }
  }
  return done;
}

bool Operation::reduce() {
  const Span span = ready();
  if (span.count == 0 || !may_publish()) return false;
  Sources sources;
  find_sources(first_ + added_, span, sources);
  const auto divisor = static_cast<std::uint32_t>(host_.size());
  for (std::size_t i = 0; i < span.count; i += kBlock) {
    const Span block{span.first + i, std::min(kBlock, span.count - i)};
    sum_.finish({sources.data(), host_.size()}, block.count, divisor, output(block.first));
    spread(block, output(block.first));
    for (std::size_t r = 0; r < host_.size(); ++r) sources[r] += block.count * width_;
  }
  if (!pass(added, added_) || !pass(summed, summed_)) return false;
  pass_empty();
  return true;
}

bool Operation::sum_all() {
  const std::uint64_t piece = first_ + taken_;
  if (taken_ == given_ || host_.count(taken) != piece || !host_.reached(given, piece + 1)) return false;
  if (!agree(piece)) return false;
  Sources sources;
  find_sources(piece, {0, call_.count}, sources);
  sum_.finish({sources.data(), host_.size()}, call_.count, static_cast<std::uint32_t>(host_.size()),
              call_.output);
  return pass(added, added_) && pass(summed, summed_) && pass(taken, taken_);
}

bool Operation::take() {
  pass_empty();
  const std::uint64_t piece = first_ + taken_;
  if (direct_ || taken_ == summed_ || host_.count(taken) != piece || !host_.reached(summed, piece + 1))
    return false;
  if (outputs_[host_.index()] == kNowhere) {
    for (std::size_t owner = 0; owner < owners_; ++owner) {
      if (owner == host_.index()) continue;
      const Span span = cut_.in_piece(owner, taken_);
      move_bytes(output(span.first), host_.results(owner, piece), span.count * width_);
    }
  }
  return pass(taken, taken_);
}

bool Operation::progress() {
  bool moved = give();
  if (direct_) return sum_all() || moved;
  if (!relayed_) moved = reduce() || moved;
  return take() || moved;
}

// Only what this rank waits for of others: something that has come already is work, and no reason to sleep.
Awaited Operation::awaited(bool sums, bool results) const {
  Awaited awaited;
  const std::uint64_t next = first_ + given_;
  if (given_ < cut_.pieces() && host_.count(given) == next && next >= kSlots)
    awaited.least[added] = next - kSlots + 1;
  if (direct_) {
    if (taken_ < given_ && host_.count(taken) == first_ + taken_) awaited.least[given] = first_ + taken_ + 1;
    return awaited;
  }
  const bool adds = added_ < given_ && host_.count(added) == first_ + added_;
  const bool publishes = host_.count(summed) == first_ + summed_ && first_ + summed_ >= kSlots;
  if (adds && (sums || own(added_).count == 0)) awaited.least[given] = first_ + added_ + 1;
  if (!relayed_) {
    // A sum needs both.
    if (adds && publishes && may_add() && !may_publish()) {
      awaited.least[given] = kNowhere;
      awaited.least[taken] = first_ + summed_ - kSlots + 1;
    }
  } else if (results && summed_ < added_ && publishes) {
    awaited.least[taken] = first_ + summed_ - kSlots + 1;
  }
  if (taken_ < summed_) awaited.least[summed] = first_ + taken_ + 1;
  return awaited;
}

}  // namespace passing::inhost
