// The inner loops, one table per instruction set. All tables compute the same bits: they are one
// source (kernels.inc) compiled several times, with contraction of floating-point expressions off.
// Callers must be in the floating-point mode of FloatMode (float_mode.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

  /// out = a + b, as IEEE has it (int32: modulo 2^32). Any of the three may be the same.
  void (*sum_f32)(const void* a, const void* b, std::size_t n, void* out);
  void (*sum_f16)(const void* a, const void* b, std::size_t n, void* out);
  void (*sum_bf16)(const void* a, const void* b, std::size_t n, void* out);
  void (*sum_i32)(const void* a, const void* b, std::size_t n, void* out);

  /// out = in / divisor, rounded once (int32: towards zero).
  void (*divide_f32)(const void* in, std::size_t n, double divisor, void* out);
  void (*divide_f16)(const void* in, std::size_t n, double divisor, void* out);
  void (*divide_bf16)(const void* in, std::size_t n, double divisor, void* out);
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
