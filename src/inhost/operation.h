// One all-reduce of a host, stage by stage: docs/inhost.md section 3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "inhost/host.h"
#include "inhost/sum.h"

namespace passing::inhost {

/// Consecutive elements.
struct Span {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// How a tensor is cut: into a stripe of whole blocks for each owner, and these into pieces. The same on all
/// ranks; the bits of the result do not depend on it.
class Cut {
 public:
  Cut(std::size_t count, std::size_t width, std::size_t owners, std::size_t slot_bytes);
  /// At least 1, also of an empty tensor: everyone must be there.
  std::uint64_t pieces() const { return pieces_; }
  Span stripe(std::size_t owner) const;
  /// The part of that stripe in a piece, and where it lies in a slot.
  Span in_piece(std::size_t owner, std::uint64_t piece) const;
  std::size_t offset(std::size_t owner) const { return owner * run_ * width_; }

 private:
  std::size_t count_;
  std::size_t width_;
  std::size_t owners_;
  std::size_t blocks_;
  std::size_t run_ = 0;  // elements of a stripe in a piece
  std::uint64_t pieces_ = 1;
};

/// The stages of one call, for one rank. None of them waits. Several operations may be under way; each stage
/// goes through them in their order. Errors are the host's: Host::trouble(). One that is given up before it
/// is done leaves the host useless: Host::cancel().
///
/// Without a relay the sum of a stripe is its result: progress() does it all. With one (the switch), the
/// owner of a stripe takes sums out as they are made, and puts results in as they come.
class Operation {
 public:
  Operation(Host& host, const Call& call, bool relayed = false);

  /// Makes the next piece of the input readable, by copying unless it lies in shared memory. False: not now.
  bool give();
  /// What of this rank's stripe can be summed next; empty: nothing yet, or nothing more.
  Span ready();
  /// Sums the first `count` of what is ready into `out`, in Sum::wide(), and goes on to the rest of it.
  /// False: the host is closed(), and this is no sum.
  bool sum(std::size_t count, void* out);
  /// Results of this rank's stripe, in order, for everyone to read, and not more than has been summed. They
  /// may lie in the output already. Returns how many could be published now.
  std::size_t publish(const void* results, std::size_t count);
  /// Takes the results of the next piece from the others. False: not now.
  bool take();
  /// Without relay: sums and publishes the next piece of this rank's stripe. False: not now.
  bool reduce();

  /// One round of all stages. False: there is nothing to do but to wait, for awaited().
  bool progress();
  /// With a relay: `sums`, if this rank would sum what is given; `results`, if it has results to publish.
  Awaited awaited(bool sums = true, bool results = true) const;
  bool done() const { return taken_ == cut_.pieces(); }
  const Sum& summation() const { return sum_; }
  Span stripe() const { return owns() ? cut_.stripe(host_.index()) : Span{}; }

 private:
  bool owns() const { return host_.index() < owners_; }
  bool agree(std::uint64_t piece);
  bool may_add() const;
  bool may_publish() const;
  Span own(std::uint64_t piece) const { return owns() ? cut_.in_piece(host_.index(), piece) : Span{}; }
  bool pass(Stage stage, std::uint64_t& through);
  void pass_empty();
  bool sum_all();
  using Sources = std::array<const std::byte*, kMostRanks>;
  void find_sources(std::uint64_t piece, Span span, Sources& sources);
  void spread(Span span, const std::byte* results);
  std::byte* output(std::size_t element) const {
    return static_cast<std::byte*>(call_.output) + element * width_;
  }
  const std::byte* input(std::size_t element) const {
    return static_cast<const std::byte*>(call_.input) + element * width_;
  }

  Host& host_;
  Call call_;
  Sum sum_;
  std::size_t width_;
  bool relayed_;
  bool direct_;  // everyone sums everything: one hop instead of two
  std::size_t owners_;
  Cut cut_;
  std::array<std::uint64_t, kMostRanks> outputs_;  // where everyone wants results; known once agreed
  std::uint64_t number_ = 0;
  std::uint64_t first_ = 0;  // piece of the host's life
  // Pieces of this operation that are through.
  std::uint64_t given_ = 0;
  std::uint64_t added_ = 0;
  std::uint64_t summed_ = 0;
  std::uint64_t taken_ = 0;
  std::size_t added_elements_ = 0;  // of the piece that is being summed
  std::size_t summed_elements_ = 0;
};

}  // namespace passing::inhost
