#include "numeric/codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "numeric/float_mode.h"
#include "wire/wire.h"

namespace passing::numeric {
namespace {

// How a type stores its non-finite values, and where its exponent starts.
struct Format {
  std::uint32_t sign;
  std::uint32_t infinity;
  std::uint32_t quiet_nan;
};

Format format_of(DataType type) {
  switch (type) {
    case DataType::float16: return {0x8000, 0x7C00, 0x7E00};
    case DataType::bfloat16: return {0x8000, 0x7F80, 0x7FC0};
    default: return {0x80000000, 0x7F800000, 0x7FC00000};
  }
}

std::uint32_t load_bits(DataType type, const void* in, std::size_t i) {
  if (size_of(type) == 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const std::byte*>(in) + 2 * i, 2);
    return bits;
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(in) + 4 * i, 4);
  return bits;
}

void store_bits(DataType type, void* out, std::size_t i, std::uint32_t bits) {
  if (size_of(type) == 2) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    std::memcpy(static_cast<std::byte*>(out) + 2 * i, &narrow, 2);
  } else {
    std::memcpy(static_cast<std::byte*>(out) + 4 * i, &bits, 4);
  }
}

// The word of a finite magnitude given by its bits.
std::uint16_t word_of(DataType type, std::uint32_t bits) {
  if (bits == 0) return PASSING_WORD_NONE;
  int exponent = 0;
  if (type == DataType::float16) {
    // As a float32: denormal float16 numbers are normal there.
    const int field = static_cast<int>(bits >> 10);
    exponent = field > 0 ? field + 112 : 102 + static_cast<int>(std::bit_width(bits));
  } else {
    exponent = static_cast<int>(type == DataType::bfloat16 ? bits >> 7 : bits >> 23);
  }
  return static_cast<std::uint16_t>(std::max(exponent, 1));
}

}  // namespace

const char* to_string(DataType type) {
  switch (type) {
    case DataType::none: return "none";
    case DataType::float32: return "float32";
    case DataType::float16: return "float16";
    case DataType::bfloat16: return "bfloat16";
    case DataType::int32: return "int32";
  }
  return "?";
}

const char* to_string(Reduction reduction) { return reduction == Reduction::sum ? "sum" : "average"; }

Codec::Codec(std::uint32_t tree_members, const Kernels& kernels)
    : kernels_(&kernels), headroom_(static_cast<int>(std::bit_width(tree_members))) {
  PASSING_ASSERT(tree_members >= 1 && tree_members <= PASSING_MAX_TREE_MEMBERS);
}

std::uint16_t Codec::block_word(DataType type, const void* in, std::size_t n) const {
  if (!is_float(type)) return PASSING_WORD_NONE;
  const std::uint32_t bits =
      type == DataType::float32 ? kernels_->max_bits_f32(in, n) : kernels_->max_bits_16(in, n);
  if (bits >= format_of(type).infinity) return PASSING_WORD_NONFINITE;
  return word_of(type, bits);
}

std::uint16_t Codec::finite_word(DataType type, const void* in, std::size_t n) const {
  const Format format = format_of(type);
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t magnitude = load_bits(type, in, i) & ~format.sign;
    if (magnitude < format.infinity) largest = std::max(largest, magnitude);
  }
  return word_of(type, largest);
}

void Codec::quantise(DataType type, const void* in, std::size_t n, std::uint16_t word, void* out) const {
  if (n == 0) return;
  if (type == DataType::int32) {
    std::memcpy(out, in, 4 * n);
    return;
  }
  if (word == PASSING_WORD_NONE) {
    std::memset(out, 0, 4 * n);
    return;
  }
  const FloatMode mode;
  const int s = exponent(word);
  const int first = std::min(s, 100);
  const QuantiseScale scale{.first = std::ldexp(1.0F, first),
                            .second = std::ldexp(1.0F, s - first),
                            .limit = std::ldexp(1.0F, 31 - headroom_)};
  switch (type) {
    case DataType::float16: kernels_->quantise_f16(in, n, scale, out); break;
    case DataType::bfloat16: kernels_->quantise_bf16(in, n, scale, out); break;
    default: kernels_->quantise_f32(in, n, scale, out); break;
  }
}

void Codec::quantise_finite(DataType type, const void* in, std::size_t n, std::uint16_t word,
                            void* out) const {
  // Rare: a block with NaN or Inf. Clean a copy piece by piece.
  constexpr std::size_t kPiece = 256;
  std::byte clean[4 * kPiece];
  const Format format = format_of(type);
  for (std::size_t begin = 0; begin < n; begin += kPiece) {
    const std::size_t m = std::min(kPiece, n - begin);
    for (std::size_t i = 0; i < m; ++i) {
      const std::uint32_t bits = load_bits(type, in, begin + i);
      store_bits(type, clean, i, (bits & ~format.sign) < format.infinity ? bits : 0);
    }
    quantise(type, clean, m, word, static_cast<std::byte*>(out) + 4 * begin);
  }
}

void Codec::dequantise(DataType type, Reduction reduction, std::uint32_t divisor, const void* in,
                       std::size_t n, std::uint16_t word, void* out) const {
  if (n == 0) return;
  const double by = reduction == Reduction::average ? divisor : 1.0;
  if (type == DataType::int32) {
    if (by == 1.0) {
      std::memcpy(out, in, 4 * n);
    } else {
      const FloatMode mode;
      kernels_->divide_i32(in, n, by, out);
    }
    return;
  }
  if (word == PASSING_WORD_NONE) {
    std::memset(out, 0, size_of(type) * n);
    return;
  }
  const FloatMode mode;
  const bool power_of_two = std::has_single_bit(static_cast<std::uint32_t>(by));
  const double factor = std::ldexp(power_of_two ? 1.0 / by : 1.0, -exponent(word));
  const DequantiseScale scale{.factor = factor,
                              .divisor = power_of_two ? 1.0 : by,
                              // Then every non-zero result is a normal float32 or overflows: the
                              // multiplication is exact, and only the conversion rounds.
                              .exact = power_of_two && factor >= 0x1p-126};
  switch (type) {
    case DataType::float16: kernels_->dequantise_f16(in, n, scale, out); break;
    case DataType::bfloat16: kernels_->dequantise_bf16(in, n, scale, out); break;
    default: kernels_->dequantise_f32(in, n, scale, out); break;
  }
}

void Codec::classify(DataType type, const void* in, std::size_t n, std::int32_t* out) {
  const Format format = format_of(type);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = load_bits(type, in, i);
    const std::uint32_t magnitude = bits & ~format.sign;
    if (magnitude < format.infinity) {
      out[i] = 0;
    } else if (magnitude > format.infinity) {
      out[i] = 1;
    } else {
      out[i] = (bits & format.sign) == 0 ? 1 << 10 : 1 << 20;
    }
  }
}

void Codec::apply_classes(DataType type, const std::int32_t* classes, std::size_t n, void* out) {
  const Format format = format_of(type);
  for (std::size_t i = 0; i < n; ++i) {
    const int nan = classes[i] & 0x3FF;
    const int positive = (classes[i] >> 10) & 0x3FF;
    const int negative = (classes[i] >> 20) & 0x3FF;
    if (nan > 0 || (positive > 0 && negative > 0)) {
      store_bits(type, out, i, format.quiet_nan);
    } else if (positive > 0) {
      store_bits(type, out, i, format.infinity);
    } else if (negative > 0) {
      store_bits(type, out, i, format.infinity | format.sign);
    }
  }
}

}  // namespace passing::numeric
