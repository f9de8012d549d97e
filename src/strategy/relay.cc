#include "strategy/relay.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "strategy/reduce.h"

namespace passing::strategy {
namespace {

// Small: the first result leaves early, and a server keeps some of them for every rank.
constexpr std::size_t kChunkBytes = 64 << 10;
// Pieces that a child may be ahead of the slowest one.
constexpr std::size_t kAhead = 8;
// Results that are expected at the same time, from each parent.
constexpr std::size_t kResultsAhead = 16;

// Sums and results have a channel each: two shards that serve each other exchange both.
constexpr std::uint32_t kUp = 0;
constexpr std::uint32_t kDown = 1;

class Tree {
 public:
  Tree(Context& context, const Signature& what, std::uint32_t ranks, Relay relay)
      : context_(context), what_(what), ranks_(ranks), relay_(std::move(relay)), width_(size_of(what.type)) {
    for (const RelayPiece& each : relay_.pieces) largest_ = std::max(largest_, each.range.count * width_);
    const std::size_t slots = std::min(2 * kAhead, relay_.pieces.size());
    slots_.emplace(context.scratch(slots * relay_.children.size() * largest_));
    for (const RelayPiece& each : relay_.pieces) {
      if (each.parent) parents_.insert(*each.parent);
    }
  }

  Task up();
  Task down();
  bool has_parent() const { return !parents_.empty(); }

 private:
  std::size_t bytes(std::size_t i) const { return relay_.pieces[i].range.count * width_; }
  const std::byte* input(std::size_t i) const { return relay_.input + relay_.pieces[i].range.first * width_; }
  std::byte* output(std::size_t i) const { return relay_.output + relay_.pieces[i].range.first * width_; }
  // Where the part of a child waits to be summed. A slot is used again 2 kAhead pieces later.
  std::byte* slot(std::size_t i, std::size_t child) const {
    return slots_->get() + (i % (2 * kAhead) * relay_.children.size() + child) * largest_;
  }
  void expect(std::size_t i);
  std::byte* sum(std::size_t i);
  void give(std::size_t i, const std::byte* result);

  Context& context_;
  const Signature what_;
  const std::uint32_t ranks_;
  const Relay relay_;
  const std::size_t width_;
  std::size_t largest_ = 0;  // bytes of a piece
  std::set<std::uint32_t> parents_;
  std::optional<Scratch> slots_;
  std::vector<Transit> coming_;                // by piece, then by child
  std::vector<std::vector<Transit>> results_;  // on their way to children, by piece
};

void Tree::expect(std::size_t i) {
  if (i >= relay_.pieces.size()) return;
  for (std::size_t child = 0; child < relay_.children.size(); ++child)
    coming_.push_back(context_.recv(relay_.children[child], slot(i, child), bytes(i), kUp));
}

// All parts of a piece are there: adds them up in order of rank. Returns where the sum is: in the output, or
// in a slot.
std::byte* Tree::sum(std::size_t i) {
  const std::size_t count = relay_.pieces[i].range.count;
  std::vector<const std::byte*> parts;
  for (std::size_t child = 0; child < relay_.children.size(); ++child) {
    if (relay_.input != nullptr && parts.size() == child && context_.rank() < relay_.children[child])
      parts.push_back(input(i));
    parts.push_back(slot(i, child));
  }
  if (relay_.input != nullptr && parts.size() == relay_.children.size()) parts.push_back(input(i));

  std::byte* const scratch = relay_.children.empty() ? nullptr : slot(i, 0);
  std::byte* const where = relay_.output != nullptr ? output(i) : scratch;
  PASSING_ASSERT(where != nullptr);  // there are children, or an output
  if (parts.size() == 1) {
    if (parts[0] != where) std::memcpy(where, parts[0], count * width_);
    return where;
  }
  const std::byte* left = parts[0];
  for (std::size_t k = 1; k < parts.size(); ++k) {
    // The first slot is free from the first sum on: it was one of its two parts, or comes after both.
    std::byte* into = k + 1 == parts.size() ? where : scratch;
    combine(what_.type, what_.reduction, left, parts[k], count, into);
    left = into;
  }
  return where;
}

void Tree::give(std::size_t i, const std::byte* result) {
  for (const std::uint32_t child : relay_.children)
    results_[i].push_back(context_.send(child, result, bytes(i), kDown));
}

Task Tree::up() {
  results_.resize(relay_.pieces.size());
  coming_.reserve(relay_.pieces.size() * relay_.children.size());
  std::vector<Transit> going;
  if (!relay_.children.empty()) {
    for (std::size_t i = 0; i < kAhead; ++i) expect(i);
  }
  for (std::size_t i = 0; i < relay_.pieces.size(); ++i) {
    const auto& parent = relay_.pieces[i].parent;
    if (relay_.children.empty() && parent) {
      going.push_back(context_.send(*parent, input(i), bytes(i), kUp));
      continue;
    }
    for (std::size_t child = 0; child < relay_.children.size(); ++child)
      co_await coming_[i * relay_.children.size() + child];
    std::byte* const whole = sum(i);
    if (parent) {
      going.push_back(context_.send(*parent, whole, bytes(i), kUp));
    } else {
      finish(what_.type, what_.reduction, ranks_, whole, relay_.pieces[i].range.count);
      give(i, whole);
    }
    // The slots of this piece's predecessor by kAhead are the next ones' to be. A result that was made in one
    // of them must be gone.
    if (relay_.output == nullptr && i >= kAhead) {
      for (Transit& each : results_[i - kAhead]) co_await each;
    }
    if (!relay_.children.empty()) expect(i + kAhead);
  }
  for (Transit& each : going) co_await each;
  if (has_parent()) co_return;  // down() does the rest
  for (auto& piece : results_) {
    for (Transit& each : piece) co_await each;
  }
}

// Results from parents, to the output and to the children.
Task Tree::down() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < relay_.pieces.size(); ++i) {
    if (relay_.pieces[i].parent) order.push_back(i);
  }
  const std::size_t at_once = kResultsAhead * parents_.size();
  std::vector<Transit> coming;
  const auto await_result = [&](std::size_t k) {
    if (k >= order.size()) return;
    const RelayPiece& piece = relay_.pieces[order[k]];
    coming.push_back(context_.recv(*piece.parent, output(order[k]), bytes(order[k]), kDown));
  };
  for (std::size_t k = 0; k < at_once; ++k) await_result(k);
  for (std::size_t k = 0; k < order.size(); ++k) {
    co_await coming[k];
    await_result(k + at_once);
    give(order[k], output(order[k]));
  }
  for (auto& piece : results_) {
    for (Transit& each : piece) co_await each;
  }
}

}  // namespace

Task relay(Context& context, const Signature& what, std::uint32_t ranks, Relay relay) {
  Tree tree(context, what, ranks, std::move(relay));
  Task up = tree.up();
  up.start();
  if (tree.has_parent()) co_await tree.down();
  co_await up;
}

std::vector<RelayPiece> pieces_of(const Signature& what,
                                  const std::vector<std::optional<std::uint32_t>>& owners) {
  std::vector<std::vector<RelayPiece>> each(owners.size());
  std::size_t most = 0;
  for (std::size_t owner = 0; owner < owners.size(); ++owner) {
    in_chunks(part(what.count, owner, owners.size()), size_of(what.type), kChunkBytes,
              [&](const Range& range) {
                each[owner].push_back({range, owners[owner]});
              });
    most = std::max(most, each[owner].size());
  }
  std::vector<RelayPiece> all;
  for (std::size_t i = 0; i < most; ++i) {
    for (const auto& pieces : each) {
      if (i < pieces.size()) all.push_back(pieces[i]);
    }
  }
  return all;
}

}  // namespace passing::strategy
