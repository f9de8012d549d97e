// FNV-1a: for what ranks compare, not for secrets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace passing {

constexpr std::uint64_t kHashBegin = 14695981039346656037U;

constexpr std::uint64_t hash_with(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 1099511628211U;
}

inline std::uint64_t hash_of(const std::string& text, std::uint64_t hash = kHashBegin) {
  for (const char each : text) hash = hash_with(hash, static_cast<unsigned char>(each));
  return hash;
}

inline std::uint64_t hash_of(const std::vector<std::size_t>& values) {
  std::uint64_t hash = kHashBegin;
  for (const std::size_t each : values) hash = hash_with(hash, each);
  return hash;
}

}  // namespace passing
