// The bits of sums over hosts and racks: docs/numerics.md sections 2 to 7 written a second time, from finite
// floats, without any of the library's code.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "communicator/layout.h"
#include "communicator/values.h"

namespace passing::test {

using Bytes = std::vector<std::byte>;
using Tensor = std::vector<float>;
using Tensors = std::vector<Tensor>;

constexpr std::size_t kBlockOf = 2112;

/// Of very different magnitudes, so that hardly any two orders of adding give the same.
inline Bytes random_tensor(DataType type, std::size_t count, std::uint32_t rank, unsigned seed = 17) {
  std::mt19937 source(seed * (rank + 1) + static_cast<unsigned>(type));
  Bytes data(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    if (type == DataType::float32) {
      const float value =
          std::ldexp(static_cast<float>(source() >> 8) - 8e6F, static_cast<int>(source() % 24) - 30);
      std::memcpy(data.data() + 4 * i, &value, 4);
    } else {
      // Of 16 bits, without one of the exponent's higher ones: finite, also when summed.
      const auto bits = static_cast<std::uint16_t>(source() & 0xDFFF);
      std::memcpy(data.data() + 2 * i, &bits, 2);
    }
  }
  return data;
}

inline Tensor widened(DataType type, const Bytes& data) {
  Tensor out(data.size() / size_of(type));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (type == DataType::float32) {
      std::memcpy(&out[i], data.data() + 4 * i, 4);
      continue;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, data.data() + 2 * i, 2);
    out[i] = static_cast<float>(type == DataType::float16 ? decode(bits, 5, 10) : decode(bits, 8, 7));
  }
  return out;
}

/// A value rounded to the type.
inline float rounded_to(DataType type, float value) {
  if (type == DataType::float16) return static_cast<float>(rounded(value, 11, -24));
  if (type == DataType::bfloat16) return static_cast<float>(rounded(value, 8, -133));
  return value;
}

/// Ranks, or hosts, with the same letter, in the order of their first.
inline std::vector<std::vector<std::uint32_t>> groups_of(const Layout& layout) {
  std::vector<std::vector<std::uint32_t>> groups;
  std::string seen;
  for (std::uint32_t r = 0; r < layout.size(); ++r) {
    const std::size_t at = seen.find(layout[r]);
    if (at == std::string::npos) {
      seen += layout[r];
      groups.push_back({r});
    } else {
      groups[at].push_back(r);
    }
  }
  return groups;
}

/// ((x_0 + x_1) + x_2) + ..., rounded to `type` after every addition.
inline Tensor in_order(const Tensors& parts, DataType type = DataType::float32) {
  Tensor sum = parts[0];
  for (float& each : sum) each = rounded_to(type, each);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = rounded_to(type, sum[i] + rounded_to(type, parts[p][i]));
  }
  return sum;
}

/// The sums of each group.
inline Tensors group_sums(const Tensors& parts, const Layout& layout) {
  Tensors sums;
  for (const auto& group : groups_of(layout)) {
    Tensors own;
    for (const std::uint32_t each : group) own.push_back(parts[each]);
    sums.push_back(in_order(own));
  }
  return sums;
}

/// What is left to do: an average divides once, and there is one rounding to the type.
inline Bytes finished(const Tensor& sum, DataType type, Reduction reduction, std::size_t ranks) {
  Bytes out(sum.size() * size_of(type));
  for (std::size_t i = 0; i < sum.size(); ++i)
    put(type, out.data(), i,
        reduction == Reduction::average ? double{sum[i]} / static_cast<double>(ranks) : sum[i]);
  return out;
}

/// s of section 3 for the block that begins there; 0 where all of it is 0.
inline int scale_of(const Tensors& members, std::size_t begin) {
  const std::size_t end = std::min(members[0].size(), begin + kBlockOf);
  float largest = 0;
  for (const Tensor& each : members) {
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(each[i]));
  }
  if (largest == 0) return 0;
  const int word = std::max(1, std::ilogb(largest) + 127);
  return 157 - word - static_cast<int>(std::bit_width(members.size()));
}

/// Sections 2 to 5: what the switch and its members make of float32 sums.
inline Bytes through_switch(const Tensors& members, DataType type, Reduction reduction, std::size_t ranks) {
  Bytes out(members[0].size() * size_of(type));
  for (std::size_t begin = 0; begin < members[0].size(); begin += kBlockOf) {
    const int s = scale_of(members, begin);
    for (std::size_t i = begin; i < std::min(members[0].size(), begin + kBlockOf); ++i) {
      double sum = 0;
      for (const Tensor& each : members) sum += std::nearbyint(std::ldexp(double{each[i]}, s));
      const double value = sum == 0 ? 0 : std::ldexp(sum, -s);
      put(type, out.data(), i, reduction == Reduction::average ? value / static_cast<double>(ranks) : value);
    }
  }
  return out;
}

/// Section 7, the ring: segment j begins with x_j. Rounded to `type` after every addition.
inline void round_the_ring(const Tensors& parts, std::size_t first, std::size_t count, DataType type,
                           Tensor& out) {
  const std::size_t size = parts.size();
  for (std::size_t j = 0; j < size; ++j) {
    for (std::size_t i = first + count * j / size; i < first + count * (j + 1) / size; ++i) {
      out[i] = rounded_to(type, parts[j][i]);
      for (std::size_t k = 1; k < size; ++k)
        out[i] = rounded_to(type, out[i] + rounded_to(type, parts[(j + k) % size][i]));
    }
  }
}

/// A ring of hosts for each leg of each stripe. `most`: ranks in the largest host; `width`: of the type;
/// `carried`: the type in which sums travel.
inline Tensor ring_of_hosts(const Tensors& hosts, std::size_t width, std::size_t lanes, std::size_t most,
                            DataType carried = DataType::float32) {
  const std::size_t count = hosts[0].size();
  const std::size_t blocks = (count + kBlockOf - 1) / kBlockOf;
  const std::size_t owners = std::clamp<std::size_t>(count * width >> 20, 1, lanes);
  const std::size_t leg =
      most == 1 ? count
                : (hosts.size() * (256 << 10) / std::max<std::size_t>(width, 4) / kBlockOf) * kBlockOf;
  Tensor out(count);
  for (std::size_t o = 0; o < owners; ++o) {
    const std::size_t end = std::min(count, blocks * (o + 1) / owners * kBlockOf);
    for (std::size_t at = std::min(count, blocks * o / owners * kBlockOf); at < end; at += leg)
      round_the_ring(hosts, at, std::min(leg, end - at), carried, out);
  }
  return out;
}

/// Section 7, halving and doubling.
inline Tensor doubled(Tensors parts) {
  const auto add = [&](std::size_t left, std::size_t right, std::size_t to) {
    for (std::size_t i = 0; i < parts[0].size(); ++i) parts[to][i] = parts[left][i] + parts[right][i];
  };
  const std::size_t extra = parts.size() - std::bit_floor(parts.size());
  for (std::size_t i = 0; i < extra; ++i) add(2 * i, 2 * i + 1, i);
  for (std::size_t i = 2 * extra; i < parts.size(); ++i) parts[i - extra] = parts[i];
  for (std::size_t half = std::bit_floor(parts.size()) / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) add(i, i + half, i);
  }
  return parts[0];
}

}  // namespace passing::test
