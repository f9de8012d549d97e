// The operation tag, docs/protocol.md section 2.3.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace passing::wire {

enum class OperationKind : std::uint8_t { all_reduce = 1, close = 2 };
enum class ChunkKind : std::uint8_t { data = 0, exponent = 1, classes = 2 };

constexpr std::uint32_t fmix32(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85EBCA6B;
  h ^= h >> 13;
  h *= 0xC2B2AE35;
  h ^= h >> 16;
  return h;
}

/// The hash of what all chunks of an operation share; the words are listed in section 2.3.
constexpr std::uint32_t operation_hash(std::initializer_list<std::uint32_t> words) {
  std::uint32_t h = 0x50415353;
  for (const std::uint32_t word : words) h = fmix32((h ^ word) + 0x9E3779B9);
  return h;
}

constexpr std::uint32_t chunk_tag(std::uint32_t operation, ChunkKind kind, std::uint64_t block,
                                  std::uint32_t packet) {
  const auto code = (static_cast<std::uint32_t>(kind) << 30) | (packet << 23) |
                    (static_cast<std::uint32_t>(block) & 0x7FFFFF);
  return fmix32(operation ^ code);
}

}  // namespace passing::wire
