// Settings of a communicator by name: "rank", "strategy", "timeout", ...
#pragma once

#include <chrono>
#include <optional>

#include "passing/config.h"

namespace passing {

/// One sentence names the setting, if there is none or its value is no good. Ranges are validate()'s
/// business.
Expected<void> set_by_name(Config& config, const char* name, const char* value);

constexpr double kLongestTimeout = 1e9;  // seconds; in nanoseconds it still fits 64 bits

/// None: not above 0, or longer than the longest.
std::optional<std::chrono::milliseconds> milliseconds_of(double seconds);

}  // namespace passing
