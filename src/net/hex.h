// Keys and blobs as text.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

namespace passing::net {

inline std::string to_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

inline std::optional<std::uint64_t> parse_hex64(const std::string& text) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  return std::stoull(text, nullptr, 16);
}

}  // namespace passing::net
