// Dissemination: in round i everyone hears of twice as many. ceil(log2 P) messages per rank, one after
// another.
#include "strategy/strategy.h"

namespace passing::strategy {

Task barrier(Context& context) {
  const std::uint32_t size = context.size();
  for (std::uint32_t distance = 1; distance < size; distance *= 2) {
    Transit sent = context.send((context.rank() + distance) % size, nullptr, 0);
    Transit heard = context.recv((context.rank() + size - distance) % size, nullptr, 0);
    co_await heard;
    co_await sent;
  }
}

}  // namespace passing::strategy
