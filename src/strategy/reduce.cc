#include "strategy/reduce.h"

#include <iterator>

#include "base/error.h"
#include "numeric/float_mode.h"
#include "numeric/kernels.h"

namespace passing::strategy {

namespace {

struct Row {
  DataType type;
  Route routes[kReductions];  // sum, average, ... in the order of Reduction
};

constexpr Row kTable[] = {
#include "route_table.inc"
};
static_assert(std::size(kTable) == kDataTypes);

}  // namespace

Route route(DataType type, Reduction reduction) {
  const auto r = static_cast<std::size_t>(reduction);
  if (r < 1 || r > kReductions) return Route::none;
  for (const Row& row : kTable) {
    if (row.type == type) return row.routes[r - 1];
  }
  return Route::none;
}

void combine(DataType type, Reduction reduction, const void* a, const void* b, std::size_t count, void* out) {
  const numeric::FloatMode mode;
  const auto how =
      numeric::kernels().combine[static_cast<std::size_t>(type)][static_cast<std::size_t>(reduction)];
  PASSING_ASSERT(how != nullptr);
  how(a, b, count, out);
}

void finish(DataType type, Reduction reduction, std::uint32_t ranks, void* data, std::size_t count) {
  if (reduction != Reduction::average) return;
  const numeric::FloatMode mode;
  numeric::kernels().divide[static_cast<std::size_t>(type)](data, count, ranks, data);
}

void finish_host_sums(DataType type, Reduction reduction, std::uint32_t ranks, const void* sums,
                      std::size_t count, void* out) {
  const auto narrow = numeric::kernels().narrow[static_cast<std::size_t>(type)];
  if (narrow == nullptr) return finish(type, reduction, ranks, out, count);
  const numeric::FloatMode mode;
  narrow(sums, count, reduction == Reduction::average ? ranks : 1, out);
}

}  // namespace passing::strategy
