// How a field of Config is read from text and shown: one function per kind of value.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "passing/config.h"

namespace passing {

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

constexpr double kLongestTimeout = 1e9;  // seconds; in nanoseconds it still fits 64 bits

/// None: not above 0, or longer than the longest.
inline std::optional<std::chrono::milliseconds> milliseconds_of(double seconds) {
  if (!(seconds > 0 && seconds <= kLongestTimeout)) return std::nullopt;  // NaN is neither
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1e3)));
}

struct Field {
  /// Whether the text is a value of this kind. Then the field has it.
  bool (*set)(Config& config, std::string_view text);
  std::string (*show)(const Config& config);
  std::string kind;        ///< what a text must be: "a whole number of bytes"
  const char* unit = "";   ///< of the value as it is shown
  const char* quote = "";  ///< around it, in sentences
};

template <std::string Config::*field>
Field text() {
  return {.set = [](Config& config, std::string_view text) { return config.*field = text, true; },
          .show = [](const Config& config) { return config.*field; },
          .kind = "any text",
          .quote = "'"};
}

template <auto field>
Field plain_number(std::string kind, const char* unit = "") {
  return {.set =
              [](Config& config, std::string_view text) {
                auto parsed = config.*field;
                if (!parse_number(text, parsed)) return false;
                config.*field = parsed;
                return true;
              },
          .show = [](const Config& config) { return fmt::format("{}", config.*field); },
          .kind = std::move(kind),
          .unit = unit};
}

template <std::uint32_t Config::*field>
Field number() {
  return plain_number<field>(fmt::format("a whole number from 0 to {}", UINT32_MAX));
}

template <std::size_t Config::*field>
Field bytes() {
  return plain_number<field>("a whole number of bytes", "bytes");
}

template <double Config::*field>
Field rate() {
  return plain_number<field>("a number of Gbit/s", "Gbit/s");
}

template <std::chrono::milliseconds Config::*field>
Field seconds() {
  return {.set =
              [](Config& config, std::string_view text) {
                double parsed = 0;
                const auto duration = parse_number(text, parsed) ? milliseconds_of(parsed) : std::nullopt;
                if (!duration) return false;
                config.*field = *duration;
                return true;
              },
          .show =
              [](const Config& config) {
                return fmt::format("{}", std::chrono::duration<double>(config.*field).count());
              },
          .kind = fmt::format("a number of seconds above 0, at most {:.0f}", kLongestTimeout),
          .unit = "seconds"};
}

template <bool Config::*field>
Field flag() {
  return {.set =
              [](Config& config, std::string_view text) {
                if (text != "0" && text != "1") return false;
                config.*field = text == "1";
                return true;
              },
          .show = [](const Config& config) { return std::string(config.*field ? "1" : "0"); },
          .kind = "0 or 1"};
}

}  // namespace passing
