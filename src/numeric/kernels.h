// The inner loops, one table per instruction set. All tables compute the same bits: they are one
// source (kernels.inc) compiled several times, with contraction of floating-point expressions off.
// Callers must be in the floating-point mode of FloatMode (float_mode.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "passing/types.h"

namespace passing::numeric {

/// Multiplies by 2^s in two factors (numerics.md section 3), then clamps to +-limit.
struct QuantiseScale {
  float first;
  float second;
  float limit;
};

/// value = q * factor / divisor; `exact` says that float32 arithmetic rounds only once.
struct DequantiseScale {
  double factor;
  double divisor;
  bool exact;
};

struct Kernels {
  const char* name;

  /// Largest magnitude as bits, sign removed.
  std::uint32_t (*max_bits_f32)(const void* in, std::size_t n);
  std::uint32_t (*max_bits_16)(const void* in, std::size_t n);

  void (*quantise_f32)(const void* in, std::size_t n, QuantiseScale scale, void* out);
  void (*quantise_f16)(const void* in, std::size_t n, QuantiseScale scale, void* out);
  void (*quantise_bf16)(const void* in, std::size_t n, QuantiseScale scale, void* out);

  void (*dequantise_f32)(const void* in, std::size_t n, DequantiseScale scale, void* out);
  void (*dequantise_f16)(const void* in, std::size_t n, DequantiseScale scale, void* out);
  void (*dequantise_bf16)(const void* in, std::size_t n, DequantiseScale scale, void* out);

  /// out = a op b, element by element, by type and reduction (an average adds). Any of the three may be the
  /// same. Null: the type has no such operation.
  using Combine = void (*)(const void* a, const void* b, std::size_t n, void* out);
  std::array<std::array<Combine, kReductions + 1>, kDataTypes + 1> combine;
  /// out = in / divisor, rounded once (integers: towards zero).
  using Divide = void (*)(const void* in, std::size_t n, std::uint64_t divisor, void* out);
  std::array<Divide, kDataTypes + 1> divide;

  /// float16 and bfloat16 to float32, exactly, NaN and infinities too. Null: the type is not a narrow float.
  using Widen = void (*)(const void* in, std::size_t n, void* out);
  std::array<Widen, kDataTypes + 1> widen;
  /// float32 / divisor to float16 or bfloat16, rounded once.
  std::array<Divide, kDataTypes + 1> narrow;

  void (*divide_i32)(const void* in, std::size_t n, double divisor, void* out);
  /// sum += in, modulo 2^32. The slot add.
  void (*add_i32)(void* sum, const void* in, std::size_t n);
  /// Reverses the bytes of each word; in and out may be the same.
  void (*swap_i32)(const void* in, std::size_t n, void* out);
};

/// The fastest table this machine can run. Chosen once, at first use.
const Kernels& kernels();

/// Every table this machine can run, slowest first: for tests and benchmarks.
std::span<const Kernels* const> all_kernels();

}  // namespace passing::numeric
