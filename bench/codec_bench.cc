// The codec and the slot add, per instruction set. 16 MB unless said otherwise.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "numeric/codec.h"
#include "wire/wire.h"

namespace passing::numeric {
namespace {

constexpr std::size_t kElements = (std::size_t{16} << 20) / 4;
constexpr std::size_t kBlock = PASSING_BLOCK_ELEMENTS;

std::vector<float> gradients() {
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i % 1000) * 1e-4F - 0.05F;
  return values;
}

void per_table(benchmark::internal::Benchmark* bench) {
  for (std::size_t i = 0; i < all_kernels().size(); ++i) bench->Arg(static_cast<std::int64_t>(i));
}

const Kernels& table(benchmark::State& state) {
  const Kernels& chosen = *all_kernels()[static_cast<std::size_t>(state.range(0))];
  state.SetLabel(chosen.name);
  return chosen;
}

void memcpy_16mb(benchmark::State& state) {
  const auto in = gradients();
  std::vector<float> out(kElements);
  for (auto _ : state) {
    std::memcpy(out.data(), in.data(), 4 * kElements);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(4 * kElements));
}
BENCHMARK(memcpy_16mb);

template <DataType Type>
void scan_and_quantise(benchmark::State& state) {
  const Codec codec(8, table(state));
  const auto values = gradients();
  const std::vector<std::uint16_t> halves(kElements, 0x2E66);  // about 0.1 as float16, 5e-11 as bfloat16
  const auto* in = Type == DataType::float32 ? reinterpret_cast<const std::byte*>(values.data())
                                             : reinterpret_cast<const std::byte*>(halves.data());
  std::vector<std::int32_t> out(kElements);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kElements; i += kBlock) {
      const std::size_t n = std::min(kBlock, kElements - i);
      const std::byte* block = in + i * size_of(Type);
      codec.quantise(Type, block, n, codec.block_word(Type, block, n), &out[i]);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(4 * kElements));
}
BENCHMARK(scan_and_quantise<DataType::float32>)->Apply(per_table);
BENCHMARK(scan_and_quantise<DataType::float16>)->Apply(per_table);
BENCHMARK(scan_and_quantise<DataType::bfloat16>)->Apply(per_table);

template <DataType Type, Reduction Kind>
void dequantise(benchmark::State& state) {
  const Codec codec(8, table(state));
  const std::vector<std::int32_t> in(kElements, 123'456'789);
  std::vector<float> out(kElements);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kElements; i += kBlock) {
      codec.dequantise(Type, Kind, 7, &in[i], std::min(kBlock, kElements - i), 120, &out[i]);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(4 * kElements));
}
BENCHMARK(dequantise<DataType::float32, Reduction::sum>)->Apply(per_table);
BENCHMARK(dequantise<DataType::float32, Reduction::average>)->Apply(per_table);
BENCHMARK(dequantise<DataType::float16, Reduction::sum>)->Apply(per_table);
BENCHMARK(dequantise<DataType::bfloat16, Reduction::sum>)->Apply(per_table);

void slot_add(benchmark::State& state) {
  const Kernels& chosen = table(state);
  std::vector<std::int32_t> sum(352);
  const std::vector<std::int32_t> in(352, 3);
  for (auto _ : state) {
    chosen.add_i32(sum.data(), in.data(), in.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(4 * in.size()));
}
BENCHMARK(slot_add)->Apply(per_table);

}  // namespace
}  // namespace passing::numeric
