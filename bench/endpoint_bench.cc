// Chunks per second through one endpoint: sent, answered by a switch that costs nothing, taken in.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "endpoint/endpoint.h"

namespace passing::bench {
namespace {

void endpoint_chunks(benchmark::State& state) {
  endpoint::Config config;
  config.members = 2;
  config.switch_addresses.resize(1);
  auto member = std::move(*endpoint::Endpoint::create(config));
  std::vector<float> tensor(1 << 20, 0.5F);
  std::vector<std::vector<std::byte>> answers(config.slots, std::vector<std::byte>(wire::packet_bytes(352)));
  std::vector<std::size_t> sizes(config.slots);
  Time now = 0;
  std::int64_t chunks = 0;
  for (auto _ : state) {
    PASSING_ASSERT(member->submit({.elements = tensor.size(),
                                   .input = tensor.data(),
                                   .output = tensor.data(),
                                   .deadline = now + 1000 * kSecond}));
    while (!member->next_completion()) {
      std::size_t sent = 0;
      while (sent < answers.size() &&
             (sizes[sent] = member->next_packet(now, 0, answers[sent].data())) != 0) {
        ++sent;
      }
      now += 50 * kMicrosecond;
      for (std::size_t i = 0; i < sent; ++i) {
        answers[i][3] = std::byte{PASSING_RESULT};
        member->receive(now, 0, {}, {answers[i].data(), sizes[i]});
      }
      chunks += static_cast<std::int64_t>(sent);
    }
  }
  state.SetItemsProcessed(chunks);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(4 * tensor.size()));
}
BENCHMARK(endpoint_chunks);

}  // namespace
}  // namespace passing::bench
