// The ring: P - 1 steps that reduce, P - 1 that gather, every link busy all the time.
//
// The tensor is cut into P segments. In step t a rank sends segment (rank - t) to its right and receives
// segment (rank - t - 1) from its left: for t < P - 1 it adds its own part, from then on segments are whole.
// Segments travel in chunks, and a chunk goes on as soon as it has been added: what is received in one step
// is what is sent in the next.
#include <algorithm>
#include <memory>
#include <vector>

#include "strategy/reduce.h"
#include "strategy/strategy.h"

namespace passing::strategy {
namespace {

// Long enough that a message costs little beside its bytes, short enough to fill the ring early.
constexpr std::size_t kChunkBytes = 256 << 10;
// Receives that are posted ahead: messages find their buffer waiting.
constexpr std::size_t kAhead = 4;

struct Piece {
  std::uint32_t step = 0;
  std::size_t first = 0;  // elements
  std::size_t count = 0;
};

// The chunks of one segment, appended in order.
void cut(std::uint32_t step, std::uint64_t segment, std::uint32_t size, const Signature& what,
         std::vector<Piece>& pieces) {
  const std::size_t most = kChunkBytes / size_of(what.type);
  const std::size_t begin = what.count * segment / size;
  const std::size_t end = what.count * (segment + 1) / size;
  for (std::size_t at = begin; at < end; at += most) pieces.push_back({step, at, std::min(most, end - at)});
}

}  // namespace

Task ring_all_reduce(Context& context, const Call& call, std::uint32_t channel) {
  const std::uint32_t size = context.size();
  const std::uint32_t rank = context.rank();
  const std::uint32_t left = (rank + size - 1) % size;
  const std::uint32_t right = (rank + 1) % size;
  const Signature& what = call.signature;
  const std::size_t width = size_of(what.type);
  const auto* input = static_cast<const std::byte*>(call.input);
  auto* output = static_cast<std::byte*>(call.output);

  std::vector<Piece> in;  // what comes from the left, in order
  for (std::uint32_t step = 0; step < 2 * size - 2; ++step)
    cut(step, (rank + 2 * size - step - 1) % size, size, what, in);
  std::vector<Piece> first;  // what the right gets before anything has come
  cut(0, rank, size, what, first);

  std::size_t largest = 0;  // bytes
  for (const Piece& piece : in) largest = std::max(largest, piece.count * width);
  const Scratch parts = context.scratch(kAhead * largest);
  std::vector<Transit> coming;
  const auto expect = [&](std::size_t i) {
    if (i >= in.size()) return;
    const Piece& piece = in[i];
    std::byte* where =
        piece.step < size - 1 ? parts.get() + i % kAhead * largest : output + piece.first * width;
    coming.push_back(context.recv(left, where, piece.count * width, channel));
  };
  for (std::size_t i = 0; i < kAhead; ++i) expect(i);
  std::vector<Transit> going;
  going.reserve(first.size() + in.size());
  for (const Piece& piece : first)
    going.push_back(context.send(right, input + piece.first * width, piece.count * width, channel));

  for (std::size_t i = 0; i < in.size(); ++i) {
    const Piece& piece = in[i];
    co_await coming[i];
    std::byte* mine = output + piece.first * width;
    if (piece.step < size - 1) {
      combine(what.type, what.reduction, parts.get() + i % kAhead * largest, input + piece.first * width,
              piece.count, mine);
      if (piece.step == size - 2) finish(what.type, what.reduction, size, mine, piece.count);
    }
    expect(i + kAhead);
    if (piece.step < 2 * size - 3) going.push_back(context.send(right, mine, piece.count * width, channel));
  }
  for (Transit& each : going) co_await each;
}

namespace {

class Ring : public Strategy {
 public:
  Task all_reduce(Context& context, const Call& call) override { return ring_all_reduce(context, call); }
};

}  // namespace

std::unique_ptr<Strategy> make_ring() { return std::make_unique<Ring>(); }

}  // namespace passing::strategy
