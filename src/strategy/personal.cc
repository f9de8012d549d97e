// Collectives in which every rank has something of its own for others: docs/collectives.md.
//
// Everything is sent at once, which for large parts means announced; a rank takes from a few others at a
// time, in rotation (rank - 1, rank - 2, ...), so that at any time everyone sends to another one, and nobody
// is buried.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "strategy/reduce.h"
#include "strategy/strategy.h"

namespace passing::strategy {
namespace {

constexpr std::uint32_t kPartners = 2;
// Measured at 1 Gbit/s and not shaped: more at once bury a link's queue, fewer leave it idle.
constexpr std::size_t kPieceBytes = 64 << 10;
constexpr std::size_t kPieces = 3;
// Below this everything is sent at once: one round of latency.
constexpr std::size_t kSmallBytes = 32 << 10;

std::vector<std::size_t> offsets(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> result(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), result.begin(), std::size_t{0});
  return result;
}

// Where everyone's part is in a buffer.
struct Parts {
  std::byte* data;
  std::vector<std::size_t> counts;
  std::vector<std::size_t> first;
  std::size_t width;

  Parts(const void* buffer, std::vector<std::size_t> elements, std::size_t element_bytes)
      : data(static_cast<std::byte*>(const_cast<void*>(buffer))),
        counts(std::move(elements)),
        first(offsets(counts)),
        width(element_bytes) {}
  std::byte* at(std::uint32_t rank) const { return data + first[rank] * width; }
  std::size_t bytes(std::uint32_t rank) const { return counts[rank] * width; }
};

// A part travels in pieces, so that the next partner's first ones are on their way when one partner's last
// ones arrive. The last is shorter than the others, if need be empty: a part of another size than the
// receiver expects always shows.
template <class Take>
void in_pieces(std::size_t bytes, const Take& take) {
  std::size_t at = 0;
  for (; at + kPieceBytes <= bytes; at += kPieceBytes) take(at, kPieceBytes);
  take(at, bytes - at);
}

// out[j] goes to rank j, in[j] comes from it; own parts are not touched.
Task trade(Context& context, const Parts& out, const Parts& in) {
  const std::uint32_t size = context.size();
  std::size_t most = 0;
  for (std::uint32_t r = 0; r < size; ++r) most = std::max({most, out.bytes(r), in.bytes(r)});
  struct Piece {
    std::uint32_t from;
    std::size_t at;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  std::vector<Transit> going;
  for (std::uint32_t step = 1; step < size; ++step) {
    const std::uint32_t to = (context.rank() + step) % size;
    in_pieces(out.bytes(to), [&](std::size_t at, std::size_t bytes) {
      going.push_back(context.send(to, out.at(to) + at, bytes));
    });
    const std::uint32_t from = (context.rank() + size - step) % size;
    in_pieces(in.bytes(from), [&](std::size_t at, std::size_t bytes) {
      pieces.push_back({from, at, bytes});
    });
  }
  // The same on all ranks or not: how many are under way is everyone's own business.
  const std::size_t at_once = most <= kSmallBytes ? pieces.size() : kPieces;
  std::vector<Transit> coming;
  const auto expect = [&](std::size_t i) {
    if (i >= pieces.size()) return;
    const auto& [from, at, bytes] = pieces[i];
    coming.push_back(context.recv_piece(from, in.at(from), at, bytes, in.bytes(from)));
  };
  for (std::size_t i = 0; i < at_once; ++i) expect(i);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    co_await coming[i];
    expect(i + at_once);
  }
  for (Transit& each : going) co_await each;
}

std::vector<std::size_t> equal(std::uint32_t size, std::size_t count) {
  return std::vector<std::size_t>(size, count);
}

}  // namespace

Task all_to_all(Context& context, const Call& call) {
  const std::size_t width = size_of(call.signature.type);
  const Parts out(call.input, call.outgoing, width);
  const Parts in(call.output, call.incoming, width);
  const std::uint32_t own = context.rank();
  if (in.bytes(own) > 0) std::memcpy(in.at(own), out.at(own), in.bytes(own));
  co_await trade(context, out, in);
  // Only the two ends of a pair know whether their counts agree: nobody is done before all pairs do.
  if (call.signature.shape != 0) co_await barrier(context);
}

// Large: a ring, in which every part travels once over every link. Small: everyone to everyone at once.
Task all_gather(Context& context, const Call& call) {
  const std::uint32_t size = context.size();
  const std::uint32_t rank = context.rank();
  const Parts all(call.output, call.incoming, size_of(call.signature.type));
  if (all.bytes(rank) > 0 && all.at(rank) != call.input)
    std::memcpy(all.at(rank), call.input, all.bytes(rank));
  std::size_t total = 0;
  for (std::uint32_t r = 0; r < size; ++r) total += all.bytes(r);
  std::vector<Transit> going;
  if (total / size <= kSmallBytes) {
    std::vector<Transit> coming;
    for (std::uint32_t step = 1; step < size; ++step) {
      const std::uint32_t from = (rank + size - step) % size;
      coming.push_back(context.recv(from, all.at(from), all.bytes(from)));
      going.push_back(context.send((rank + step) % size, all.at(rank), all.bytes(rank)));
    }
    for (Transit& each : coming) co_await each;
    for (Transit& each : going) co_await each;
    co_return;
  }
  if (call.signature.shape == 0 && std::has_single_bit(size)) {
    co_await doubling_all_gather(context, call);
    co_return;
  }
  // In chunks: a chunk goes on as soon as it is there.
  constexpr std::size_t kChunkBytes = 256 << 10;
  constexpr std::size_t kAhead = 4;
  struct Piece {
    std::byte* data;
    std::size_t bytes;
    bool last;  // the right neighbour has it already
  };
  const auto cut = [&](std::uint32_t which, bool last, std::vector<Piece>& pieces) {
    for (std::size_t at = 0; at < all.bytes(which); at += kChunkBytes)
      pieces.push_back({all.at(which) + at, std::min(kChunkBytes, all.bytes(which) - at), last});
  };
  const std::uint32_t right = (rank + 1) % size;
  std::vector<Piece> own;
  std::vector<Piece> others;
  cut(rank, false, own);
  for (std::uint32_t step = 1; step < size; ++step)
    cut((rank + size - step) % size, step == size - 1, others);
  std::vector<Transit> coming;
  const auto expect = [&](std::size_t i) {
    if (i < others.size())
      coming.push_back(context.recv((rank + size - 1) % size, others[i].data, others[i].bytes));
  };
  for (std::size_t i = 0; i < kAhead; ++i) expect(i);
  for (const Piece& each : own) going.push_back(context.send(right, each.data, each.bytes));
  for (std::size_t i = 0; i < others.size(); ++i) {
    co_await coming[i];
    expect(i + kAhead);
    if (!others[i].last) going.push_back(context.send(right, others[i].data, others[i].bytes));
  }
  for (Transit& each : going) co_await each;
}

Task gather(Context& context, const Call& call) {
  const std::uint32_t size = context.size();
  const std::size_t bytes = call.bytes();
  if (context.rank() != call.signature.root) {
    Transit sent = context.send(call.signature.root, call.input, bytes);
    co_await sent;
    co_return;
  }
  auto* output = static_cast<std::byte*>(call.output);
  std::vector<Transit> coming;
  for (std::uint32_t r = 0; r < size; ++r) {
    if (r != context.rank()) coming.push_back(context.recv(r, output + r * bytes, bytes));
  }
  if (bytes > 0 && output + context.rank() * bytes != call.input)
    std::memcpy(output + context.rank() * bytes, call.input, bytes);
  for (Transit& each : coming) co_await each;
}

Task scatter(Context& context, const Call& call) {
  const std::uint32_t size = context.size();
  const std::size_t bytes = call.bytes();
  if (context.rank() != call.signature.root) {
    Transit got = context.recv(call.signature.root, call.output, bytes);
    co_await got;
    co_return;
  }
  const auto* input = static_cast<const std::byte*>(call.input);
  std::vector<Transit> going;
  for (std::uint32_t step = 1; step < size; ++step) {
    const std::uint32_t to = (context.rank() + step) % size;
    going.push_back(context.send(to, input + to * bytes, bytes));
  }
  if (bytes > 0 && call.output != input + context.rank() * bytes)
    std::memcpy(call.output, input + context.rank() * bytes, bytes);
  for (Transit& each : going) co_await each;
}

// Everyone's part for rank j goes straight to rank j, which combines them in the order of its rotation.
Task reduce_scatter(Context& context, const Call& call) {
  const std::uint32_t size = context.size();
  const std::uint32_t rank = context.rank();
  const Signature& what = call.signature;
  const std::size_t bytes = call.bytes();
  if (bytes > kSmallBytes && std::has_single_bit(size)) {
    co_await halving_reduce_scatter(context, call);
    co_return;
  }
  const Parts out(call.input, equal(size, what.count), size_of(what.type));
  const std::uint32_t at_once = bytes <= kSmallBytes ? size - 1 : std::min(kPartners, size - 1);
  const Scratch theirs = context.scratch(at_once * bytes);
  std::vector<Transit> going;
  for (std::uint32_t step = 1; step < size; ++step)
    going.push_back(context.send((rank + step) % size, out.at((rank + step) % size), bytes));
  std::vector<Transit> coming;
  const auto expect = [&](std::uint32_t step) {
    if (step < size) {
      coming.push_back(
          context.recv((rank + size - step) % size, theirs.get() + (step - 1) % at_once * bytes, bytes));
    }
  };
  for (std::uint32_t step = 1; step <= at_once; ++step) expect(step);
  const std::byte* sum = out.at(rank);
  for (std::uint32_t step = 1; step < size; ++step) {
    co_await coming[step - 1];
    combine(what.type, what.reduction, sum, theirs.get() + (step - 1) % at_once * bytes, what.count,
            call.output);
    sum = static_cast<const std::byte*>(call.output);
    expect(step + at_once);
  }
  finish(what.type, what.reduction, size, call.output, what.count);
  for (Transit& each : going) co_await each;
}

// Small: a binomial tree. Large: reduced in parts, everyone its own, and gathered at the root.
Task reduce(Context& context, const Call& call) {
  const std::uint32_t size = context.size();
  const Signature& what = call.signature;
  const std::size_t width = size_of(what.type);
  const std::size_t bytes = call.bytes();
  const std::uint32_t place = (context.rank() + size - what.root) % size;
  const auto rank_at = [&](std::uint32_t at) { return (at + what.root) % size; };
  if (bytes <= kSmallBytes) {
    const Scratch sum = context.scratch(bytes);
    std::memcpy(sum.get(), call.input, bytes);
    const Scratch theirs = context.scratch(bytes);
    for (std::uint32_t distance = 1; distance < size; distance *= 2) {
      if ((place & distance) != 0) {
        Transit sent = context.send(rank_at(place - distance), sum.get(), bytes);
        co_await sent;
        co_return;
      }
      if (place + distance >= size) continue;
      Transit got = context.recv(rank_at(place + distance), theirs.get(), bytes);
      co_await got;
      combine(what.type, what.reduction, sum.get(), theirs.get(), what.count, sum.get());
    }
    finish(what.type, what.reduction, size, sum.get(), what.count);
    std::memcpy(call.output, sum.get(), bytes);
    co_return;
  }
  // Part r of the tensor is rank r's.
  std::vector<std::size_t> counts(size);
  for (std::uint32_t r = 0; r < size; ++r) counts[r] = what.count * (r + 1) / size - what.count * r / size;
  const Parts out(call.input, counts, width);
  const std::size_t own_bytes = out.bytes(context.rank());
  const Scratch theirs = context.scratch((size - 1) * own_bytes);
  const Scratch sum = context.scratch(own_bytes);
  std::vector<Transit> coming;
  std::vector<Transit> going;
  for (std::uint32_t step = 1; step < size; ++step) {
    const std::uint32_t to = (context.rank() + step) % size;
    coming.push_back(context.recv((context.rank() + size - step) % size,
                                  theirs.get() + (step - 1) * own_bytes, own_bytes));
    going.push_back(context.send(to, out.at(to), out.bytes(to)));
  }
  const std::byte* left = out.at(context.rank());
  for (std::uint32_t step = 1; step < size; ++step) {
    co_await coming[step - 1];
    combine(what.type, what.reduction, left, theirs.get() + (step - 1) * own_bytes, counts[context.rank()],
            sum.get());
    left = sum.get();
  }
  finish(what.type, what.reduction, size, sum.get(), counts[context.rank()]);
  for (Transit& each : going) co_await each;  // the output may be the input
  if (place != 0) {
    Transit sent = context.send(what.root, sum.get(), own_bytes);
    co_await sent;
    co_return;
  }
  const Parts whole(call.output, counts, width);
  std::vector<Transit> parts;
  for (std::uint32_t r = 0; r < size; ++r) {
    if (r != context.rank()) parts.push_back(context.recv(r, whole.at(r), whole.bytes(r)));
  }
  std::memcpy(whole.at(context.rank()), sum.get(), own_bytes);
  for (Transit& each : parts) co_await each;
}

}  // namespace passing::strategy
