// Packets per second through one aggregator: 352 elements, 256 slots, results copied out.
#include <benchmark/benchmark.h>

#include "traffic.h"

namespace passing::bench {
namespace {

void aggregator_packets(benchmark::State& state) {
  Traffic traffic(static_cast<std::uint16_t>(state.range(0)));
  std::byte out[Traffic::kBytes];
  for (auto _ : state) traffic.lap(out);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(traffic.packets_per_lap()));
}
BENCHMARK(aggregator_packets)->ArgName("members")->Arg(1)->Arg(2)->Arg(4)->Arg(16)->Arg(64);

}  // namespace
}  // namespace passing::bench
