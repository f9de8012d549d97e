// Small: a binomial tree, log2 P steps. Large: a chain in chunks, where every link carries the data once.
#include <algorithm>
#include <vector>

#include "strategy/strategy.h"

namespace passing::strategy {
namespace {

constexpr std::size_t kTreeBytes = 64 << 10;
// The last of the chain waits for a chunk of every rank before it: many chunks where there is little data,
// long ones where there is enough.
constexpr std::size_t kChunks = 16;
constexpr std::size_t kLeastChunkBytes = 16 << 10;
constexpr std::size_t kMostChunkBytes = 256 << 10;

Task tree(Context& context, const Call& call) {
  const std::uint32_t size = context.size();
  // Seen from the root.
  const std::uint32_t place = (context.rank() + size - call.signature.root) % size;
  const auto rank_at = [&](std::uint32_t at) { return (at + call.signature.root) % size; };
  std::uint32_t reach = 1;
  while (reach < size && (place & reach) == 0) reach *= 2;
  if (place != 0) {
    Transit got = context.recv(rank_at(place - reach), call.output, call.bytes());
    co_await got;
  }
  std::vector<Transit> sent;
  for (reach /= 2; reach > 0; reach /= 2) {
    if (place + reach < size) sent.push_back(context.send(rank_at(place + reach), call.output, call.bytes()));
  }
  for (Transit& each : sent) co_await each;
}

Task chain(Context& context, const Call& call) {
  const std::uint32_t size = context.size();
  const std::uint32_t place = (context.rank() + size - call.signature.root) % size;
  auto* data = static_cast<std::byte*>(call.output);
  const std::size_t bytes = call.bytes();
  const std::size_t chunk = std::clamp(bytes / kChunks, kLeastChunkBytes, kMostChunkBytes);
  std::vector<Transit> got;
  std::vector<Transit> sent;
  if (place != 0) {
    for (std::size_t at = 0; at < bytes; at += chunk) {
      got.push_back(context.recv((context.rank() + size - 1) % size, data + at, std::min(chunk, bytes - at)));
    }
  }
  for (std::size_t at = 0, i = 0; at < bytes; at += chunk, ++i) {
    if (place != 0) co_await got[i];
    if (place + 1 < size)
      sent.push_back(context.send((context.rank() + 1) % size, data + at, std::min(chunk, bytes - at)));
  }
  for (Transit& each : sent) co_await each;
}

}  // namespace

Task broadcast(Context& context, const Call& call) {
  return call.bytes() <= kTreeBytes ? tree(context, call) : chain(context, call);
}

}  // namespace passing::strategy
