// What a controller takes, and members keep to: docs/controller.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace passing::net {

constexpr std::size_t kLongestName = 128;        ///< of a job or a tag, in characters
constexpr std::size_t kShortestToken = 8;        ///< in characters
constexpr std::uint32_t kMostRendezvous = 1024;  ///< ranks in a job without lanes

}  // namespace passing::net
