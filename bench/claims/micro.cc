// Measures the ratios promised for codec, slot add and aggregator, each beside its yardstick in
// alternating rounds, and prints the median as JSON: {"name": figure, ...}. claims.py has the targets.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "claims/plain_add.h"
#include "numeric/codec.h"
#include "traffic.h"

namespace {

using namespace passing;
using numeric::DataType;

constexpr int kRounds = 31;
constexpr std::size_t kElements = (std::size_t{16} << 20) / 4;
constexpr std::size_t kBlock = PASSING_BLOCK_ELEMENTS;

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The median over rounds of combine(time of ours, time of the yardstick).
double compare(const std::function<void()>& ours, const std::function<void()>& yardstick,
               const std::function<double(double, double)>& combine) {
  ours();
  yardstick();
  std::vector<double> figures;
  for (int round = 0; round < kRounds; ++round) {
    const double a = seconds(ours);
    const double b = seconds(yardstick);
    figures.push_back(combine(a, b));
  }
  return median(figures);
}

double speed_ratio(double ours, double yardstick) { return yardstick / ours; }

double quantise_against_memcpy() {
  std::vector<float> in(kElements);
  for (std::size_t i = 0; i < kElements; ++i) in[i] = static_cast<float>(i % 1000) * 1e-4F - 0.05F;
  std::vector<std::int32_t> out(kElements);
  const numeric::Codec codec(8);
  const auto ours = [&] {
    for (std::size_t i = 0; i < kElements; i += kBlock) {
      const std::size_t n = std::min(kBlock, kElements - i);
      codec.quantise(DataType::float32, &in[i], n, codec.block_word(DataType::float32, &in[i], n), &out[i]);
    }
  };
  return compare(
      ours, [&] { std::memcpy(out.data(), in.data(), 4 * kElements); }, speed_ratio);
}

double dequantise_against_memcpy() {
  const std::vector<std::int32_t> in(kElements, 123'456'789);
  std::vector<float> out(kElements);
  const numeric::Codec codec(8);
  const auto ours = [&] {
    for (std::size_t i = 0; i < kElements; i += kBlock) {
      codec.dequantise(DataType::float32, numeric::Reduction::sum, 1, &in[i], std::min(kBlock, kElements - i),
                       120, &out[i]);
    }
  };
  return compare(
      ours, [&] { std::memcpy(out.data(), in.data(), 4 * kElements); }, speed_ratio);
}

// The data of an aggregator: 256 slots of 352 elements, as packets have them (unaligned).
struct SlotData {
  std::vector<std::int32_t> sums = std::vector<std::int32_t>(256 * 352);
  std::vector<std::int32_t> values = std::vector<std::int32_t>(256 * 361, 3);

  template <class Add>
  void run(Add add) {
    for (int repeat = 0; repeat < 100; ++repeat) {
      for (std::size_t slot = 0; slot < 256; ++slot) add(&sums[slot * 352], &values[slot * 361 + 9]);
    }
  }
};

double slot_add_against_plain_add() {
  SlotData data;
  const numeric::Kernels& kernels = numeric::kernels();
  const auto ours = [&] {
    data.run([&](std::int32_t* sum, const std::int32_t* in) { kernels.add_i32(sum, in, 352); });
  };
  const auto plain = [&] {
    data.run([](std::int32_t* sum, const std::int32_t* in) { plain_add(sum, in, 352); });
  };
  return compare(ours, plain, speed_ratio);
}

// Nanoseconds per packet beyond the add of the same packets into as many slots.
double aggregator_overhead_ns() {
  bench::Traffic traffic(2);
  std::vector<std::int32_t> sums(std::size_t{2} * bench::Traffic::kSlots * bench::Traffic::kElements);
  std::byte out[bench::Traffic::kBytes];
  constexpr int kLaps = 200;
  const auto ours = [&] {
    for (int lap = 0; lap < kLaps; ++lap) traffic.lap(out);
  };
  const auto adds = [&] {
    for (int lap = 0; lap < kLaps; ++lap) {
      for (std::uint32_t slot = 0; slot < bench::Traffic::kSlots; ++slot) {
        std::int32_t* sum = &sums[(2 * slot + lap % 2) * bench::Traffic::kElements];
        for (std::uint16_t m = 0; m < 2; ++m) {
          numeric::kernels().add_i32(sum, traffic.packet(slot, m) + PASSING_HEADER_BYTES,
                                     bench::Traffic::kElements);
        }
      }
    }
  };
  const double packets = kLaps * static_cast<double>(traffic.packets_per_lap());
  return compare(ours, adds, [&](double a, double b) { return (a - b) / packets * 1e9; });
}

}  // namespace

int main() {
  fmt::print(
      "{{\"quantise\": {:.3f}, \"dequantise\": {:.3f}, \"slot-add\": {:.3f}, \"aggregator\": {:.1f}}}\n",
      quantise_against_memcpy(), dequantise_against_memcpy(), slot_add_against_plain_add(),
      aggregator_overhead_ns());
}
