// Recursive halving and doubling: log2 P steps that reduce, as many that gather; half the data first, then a
// quarter, ...
//
// Small tensors are not halved: partners exchange all they have, log2 P steps in all. Each element is
// combined in the same order either way.
//
// The number of ranks is cut to a power of two first: of the first 2 (P - P2) ranks, each even one gives its
// tensor to the odd one beside it, and gets the result at the end. The others form a cube. In the step with
// distance d (P2 / 2 down to 1) two partners share a range of elements: each sends one half and reduces the
// other. Then the same way back.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "strategy/pieces.h"
#include "strategy/reduce.h"
#include "strategy/strategy.h"

namespace passing::strategy {
namespace {

constexpr std::size_t kChunkBytes = 256 << 10;
// Up to here one message more per byte costs less than one step more.
constexpr std::size_t kWholeBytes = 8 << 10;

class HalvingDoubling : public Strategy {
 public:
  Task all_reduce(Context& context, const Call& call) override { return doubling_all_reduce(context, call); }
};

void send_range(Context& context, std::uint32_t to, const std::byte* data, std::size_t width,
                const Range& range, std::vector<Transit>& going) {
  in_chunks(range, width, kChunkBytes, [&](const Range& piece) {
    going.push_back(context.send(to, data + piece.first * width, piece.count * width));
  });
}

// Receives a range and combines it with `mine` into `out`: lower ranks on the left, so that both partners of
// a pair would get the same.
Task take_and_combine(Context& context, std::uint32_t from, const Signature& what, const std::byte* mine,
                      std::byte* out, Range range) {
  const std::size_t width = size_of(what.type);
  const Scratch theirs = context.scratch(range.count * width);
  std::vector<Transit> coming;
  std::vector<Range> pieces;
  in_chunks(range, width, kChunkBytes, [&](const Range& piece) {
    pieces.push_back(piece);
    coming.push_back(
        context.recv(from, theirs.get() + (piece.first - range.first) * width, piece.count * width));
  });
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    co_await coming[i];
    const Range& piece = pieces[i];
    const std::byte* other = theirs.get() + (piece.first - range.first) * width;
    const std::byte* own = mine + piece.first * width;
    const bool lower = from < context.rank();
    combine(what.type, what.reduction, lower ? other : own, lower ? own : other, piece.count,
            out + piece.first * width);
  }
}

Task take(Context& context, std::uint32_t from, std::byte* data, std::size_t width, Range range) {
  std::vector<Transit> coming;
  in_chunks(range, width, kChunkBytes, [&](const Range& piece) {
    coming.push_back(context.recv(from, data + piece.first * width, piece.count * width));
  });
  for (Transit& each : coming) co_await each;
}

}  // namespace

Task halving_reduce_scatter(Context& context, const Call& call) {
  const Signature& what = call.signature;
  const std::size_t width = size_of(what.type);
  Range range{0, what.count * context.size()};
  const auto* current = static_cast<const std::byte*>(call.input);
  std::vector<Scratch> sums;  // what has been sent of them may still be read
  std::vector<Transit> going;
  for (std::uint32_t distance = context.size() / 2; distance > 0; distance /= 2) {
    const std::uint32_t partner = context.rank() ^ distance;
    const bool upper = (context.rank() & distance) != 0;
    send_range(context, partner, current, width, range.half(!upper), going);
    range = range.half(upper);
    auto* where = static_cast<std::byte*>(call.output);
    if (distance > 1) where = sums.emplace_back(context.scratch(range.count * width)).get();
    // As if it held the whole tensor.
    std::byte* out = where - range.first * width;
    co_await take_and_combine(context, partner, what, current, out, range);
    current = out;
  }
  finish(what.type, what.reduction, context.size(), call.output, what.count);
  for (Transit& each : going) co_await each;
}

Task doubling_all_gather(Context& context, const Call& call) {
  const std::size_t width = size_of(call.signature.type);
  const std::size_t count = call.signature.count;
  auto* output = static_cast<std::byte*>(call.output);
  std::vector<Transit> going;
  for (std::uint32_t distance = 1; distance < context.size(); distance *= 2) {
    const std::uint32_t partner = context.rank() ^ distance;
    const std::uint32_t own = context.rank() & ~(distance - 1);  // the first of those whose parts are here
    const std::uint32_t theirs = partner & ~(distance - 1);
    send_range(context, partner, output, width, {own * count, distance * count}, going);
    co_await take(context, partner, output, width, {theirs * count, distance * count});
  }
  for (Transit& each : going) co_await each;
}

Task doubling_all_reduce(Context& context, const Call& call) {
  const std::uint32_t size = context.size();
  const std::uint32_t rank = context.rank();
  const std::uint32_t cube = std::bit_floor(size);
  const std::uint32_t extra = size - cube;
  const Signature& what = call.signature;
  const std::size_t width = size_of(what.type);
  const auto* input = static_cast<const std::byte*>(call.input);
  auto* output = static_cast<std::byte*>(call.output);
  const Range whole{0, what.count};
  std::vector<Transit> going;

  const bool paired = rank < 2 * extra;
  if (paired && rank % 2 == 0) {
    send_range(context, rank + 1, input, width, whole, going);
    for (Transit& each : going) co_await each;  // before the result overwrites it
    co_await take(context, rank + 1, output, width, whole);
    co_return;
  }
  const std::byte* current = input;
  if (paired) {
    co_await take_and_combine(context, rank - 1, what, input, output, whole);
    current = output;
  }
  // Places in the cube, and the ranks there.
  const std::uint32_t place = paired ? rank / 2 : rank - extra;
  const auto rank_at = [&](std::uint32_t at) { return at < extra ? 2 * at + 1 : at + extra; };

  if (what.count * width <= kWholeBytes) {
    const Scratch theirs = context.scratch(what.count * width);
    // What has been sent may still be read while the next step combines: another place for each.
    const Scratch sums = context.scratch(what.count * width * static_cast<std::size_t>(std::bit_width(cube)));
    std::byte* into = sums.get();
    for (std::uint32_t distance = cube / 2; distance > 0; distance /= 2) {
      const std::uint32_t partner = rank_at(place ^ distance);
      Transit sent = context.send(partner, current, what.count * width);
      Transit got = context.recv(partner, theirs.get(), what.count * width);
      going.push_back(sent);
      co_await got;
      const bool lower = partner < rank;
      combine(what.type, what.reduction, lower ? theirs.get() : current, lower ? current : theirs.get(),
              what.count, into);
      current = into;
      into += what.count * width;
    }
    for (Transit& each : going) co_await each;
    if (current != output) std::memcpy(output, current, what.count * width);
    finish(what.type, what.reduction, size, output, what.count);
    if (paired) {
      Transit sent = context.send(rank - 1, output, what.count * width);
      co_await sent;
    }
    co_return;
  }

  std::vector<Range> ranges = {whole};  // what this rank and its partner shared, step by step
  for (std::uint32_t distance = cube / 2; distance > 0; distance /= 2) {
    const std::uint32_t partner = rank_at(place ^ distance);
    const bool upper = (place & distance) != 0;
    const Range shared = ranges.back();
    send_range(context, partner, current, width, shared.half(!upper), going);
    co_await take_and_combine(context, partner, what, current, output, shared.half(upper));
    // What was sent may be overwritten on the way back only by what its receiver has made of it.
    ranges.push_back(shared.half(upper));
    current = output;
  }
  finish(what.type, what.reduction, size, output + ranges.back().first * width, ranges.back().count);
  for (std::uint32_t distance = 1; distance < cube; distance *= 2) {
    const std::uint32_t partner = rank_at(place ^ distance);
    const bool upper = (place & distance) != 0;
    const Range own = ranges.back();
    ranges.pop_back();
    send_range(context, partner, output, width, own, going);
    co_await take(context, partner, output, width, ranges.back().half(!upper));
  }
  if (paired) send_range(context, rank - 1, output, width, whole, going);
  for (Transit& each : going) co_await each;
}

std::unique_ptr<Strategy> make_halving_doubling() { return std::make_unique<HalvingDoubling>(); }

}  // namespace passing::strategy
