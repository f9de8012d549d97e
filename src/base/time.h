// Time as the protocol sees it: nanoseconds handed in by the caller. Nothing here reads a clock.
#pragma once

#include <cstdint>

namespace passing {

using Time = std::int64_t;      ///< nanoseconds since an origin of the caller's choice
using Duration = std::int64_t;  ///< nanoseconds

constexpr Duration kMicrosecond = 1'000;
constexpr Duration kMillisecond = 1'000'000;
constexpr Duration kSecond = 1'000'000'000;

}  // namespace passing
