// Simulated runs per second, over the seeds the tests use.
#include <benchmark/benchmark.h>

#include "rehearse/world.h"

namespace passing::rehearse {
namespace {

void rehearsals(benchmark::State& state) {
  std::uint64_t seed = 0;
  for (auto _ : state) {
    const Outcome outcome = World(Scenario::from_seed(seed++ % 1000)).run();
    PASSING_ASSERT(outcome.problem.empty());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(rehearsals)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace passing::rehearse
