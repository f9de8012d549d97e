// Settings of a communicator by name: "rank", "strategy", "timeout", ...
#pragma once

#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/limits.h"
#include "passing/config.h"

namespace passing {

/// One sentence names the setting (as `shown`, if given), if there is none or its value is no good. Ranges
/// are validate()'s business.
Expected<void> set_by_name(Config& config, const char* name, const char* value, const char* shown = nullptr);

/// Of all settings that have one.
std::vector<const char*> setting_names();

/// The strategy, or the one that an empty setting stands for.
std::string chosen_strategy(const Config& config);

/// The parameter servers of a strategy that uses them.
std::vector<std::string> chosen_servers(const Config& config);

/// What is derived from a job's name ("JOB.rendezvous") must suit the controller too.
constexpr std::size_t kLongestJob = net::kLongestName - 28;
bool fits_a_name(char c);

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

constexpr double kLongestTimeout = 1e9;  // seconds; in nanoseconds it still fits 64 bits

/// None: not above 0, or longer than the longest.
std::optional<std::chrono::milliseconds> milliseconds_of(double seconds);

}  // namespace passing
