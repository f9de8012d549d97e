#include "inhost/sum.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "numeric/float_mode.h"
#include "numeric/kernels.h"
#include "wire/wire.h"

namespace passing::inhost {
namespace {

// Small enough that the sum so far stays in the nearest cache.
constexpr std::size_t kTile = PASSING_BLOCK_ELEMENTS;

std::size_t code(DataType type) { return static_cast<std::size_t>(type); }

}  // namespace

bool Sum::possible(DataType type, Reduction reduction) {
  const auto r = static_cast<std::size_t>(reduction);
  return code(type) >= 1 && code(type) <= kDataTypes && r >= 1 && r <= kReductions &&
         numeric::kernels().combine[code(type)][r] != nullptr;
}

Sum::Sum(DataType type, Reduction reduction) : type_(type), wide_(wide_type(type)), reduction_(reduction) {
  PASSING_ASSERT(possible(type, reduction));
}

std::byte* Sum::scratch(std::unique_ptr<std::byte[]>& memory) {
  constexpr std::size_t kWidest = 8;
  if (!memory) memory = std::make_unique_for_overwrite<std::byte[]>(kTile * kWidest);
  return memory.get();
}

void Sum::add_tile(std::span<const std::byte* const> sources, std::size_t first, std::size_t count,
                   void* out) {
  const auto& kernels = numeric::kernels();
  const auto combine = kernels.combine[code(wide_)][static_cast<std::size_t>(reduction_)];
  const auto widen = kernels.widen[code(type_)];
  const auto at = [&](std::size_t i) { return sources[i] + first * size_of(type_); };
  if (sources.size() == 1) {
    if (widen != nullptr) return widen(at(0), count, out);
    // Truth is 0 or 1, also of one rank.
    if (type_ == DataType::boolean) {
      return kernels.combine[code(type_)][static_cast<std::size_t>(Reduction::bit_or)](at(0), at(0), count,
                                                                                       out);
    }
    std::memmove(out, at(0), count * size_of(type_));
    return;
  }
  // Only the last step writes to `out`: it may be a source.
  const void* sum = at(0);
  if (widen != nullptr) {
    widen(at(0), count, scratch(tile_));
    sum = scratch(tile_);
  }
  for (std::size_t i = 1; i < sources.size(); ++i) {
    const void* next = at(i);
    if (widen != nullptr) {
      widen(at(i), count, scratch(operand_));
      next = scratch(operand_);
    }
    void* to = i + 1 == sources.size() ? out : scratch(tile_);
    combine(sum, next, count, to);
    sum = to;
  }
}

void Sum::add(std::span<const std::byte* const> sources, std::size_t count, void* out) {
  const numeric::FloatMode mode;
  for (std::size_t i = 0; i < count; i += kTile)
    add_tile(sources, i, std::min(kTile, count - i), static_cast<std::byte*>(out) + i * size_of(wide_));
}

void Sum::finish(std::span<const std::byte* const> sources, std::size_t count, std::uint32_t divisor,
                 void* out) {
  const numeric::FloatMode mode;
  const auto& kernels = numeric::kernels();
  const std::uint32_t by = reduction_ == Reduction::average ? divisor : 1;
  for (std::size_t i = 0; i < count; i += kTile) {
    const std::size_t n = std::min(kTile, count - i);
    std::byte* to = static_cast<std::byte*>(out) + i * size_of(type_);
    if (wide_ != type_) {
      add_tile(sources, i, n, scratch(tile_));
      kernels.narrow[code(type_)](scratch(tile_), n, by, to);
    } else {
      add_tile(sources, i, n, to);
      if (by != 1) kernels.divide[code(type_)](to, n, by, to);
    }
  }
}

}  // namespace passing::inhost
