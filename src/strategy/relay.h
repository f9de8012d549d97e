// Sums on their way up a tree and results on their way down, piece by piece: what parameter servers
// and shards have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "strategy/context.h"
#include "strategy/pieces.h"
#include "strategy/task.h"

namespace passing::strategy {

/// One message's worth of a tensor, and who makes the result of it: this rank or server, if nobody is named.
struct RelayPiece {
  Range range;
  std::optional<std::uint32_t> parent;
};

/// The part of one rank, or server, in a tree. Pieces go in the same order on both ends of every link.
struct Relay {
  std::vector<RelayPiece> pieces;
  std::vector<std::uint32_t> children;  ///< ascending
  const std::byte* input = nullptr;     ///< what this rank gives; none: it only serves
  std::byte* output = nullptr;          ///< where the result goes; the same as input, or apart
};

/// The result of a piece is made in order of rank: ((r0 + r1) + r2) ..., this rank's own part included.
/// Average: divided by `ranks` where the result is made.
Task relay(Context& context, const Signature& what, std::uint32_t ranks, Relay relay);

/// The pieces of everything that `owners` own, in equal parts, in turns: so that all of them are busy.
std::vector<RelayPiece> pieces_of(const Signature& what,
                                  const std::vector<std::optional<std::uint32_t>>& owners);

}  // namespace passing::strategy
