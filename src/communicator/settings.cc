#include "communicator/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"

namespace passing {
namespace {

using Set = Expected<void> (*)(Config& config, const char* name, const char* value);

template <std::string Config::*field>
Expected<void> text(Config& config, const char* /*name*/, const char* value) {
  config.*field = value;
  return {};
}

template <std::size_t Config::*field>
Expected<void> bytes(Config& config, const char* name, const char* value) {
  if (parse_number(value, config.*field)) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is '{}': must be a whole number of bytes", name, value));
}

template <double Config::*field>
Expected<void> rate(Config& config, const char* name, const char* value) {
  if (parse_number(value, config.*field)) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is '{}': must be a number of Gbit/s", name, value));
}

template <std::uint32_t Config::*field>
Expected<void> number(Config& config, const char* name, const char* value) {
  std::uint32_t parsed = 0;
  if (!parse_number(value, parsed)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is '{}': must be a whole number from 0 to 4294967295", name, value));
  }
  config.*field = parsed;
  return {};
}

template <std::chrono::milliseconds Config::*field>
Expected<void> seconds(Config& config, const char* name, const char* value) {
  double parsed = 0;
  const auto duration = parse_number(value, parsed) ? milliseconds_of(parsed) : std::nullopt;
  if (!duration) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is '{}': must be a number of seconds above 0, at most {:.0f}", name, value,
                            kLongestTimeout));
  }
  config.*field = *duration;
  return {};
}

template <bool Config::*field>
Expected<void> flag(Config& config, const char* name, const char* value) {
  const std::string_view text = value;
  if (text != "0" && text != "1")
    return fail(ErrorCode::invalid_argument, fmt::format("{} is '{}': must be 0 or 1", name, value));
  config.*field = text == "1";
  return {};
}

struct Setting {
  const char* name;
  Set set;
};

constexpr Setting kSettings[] = {
    {"rank", number<&Config::rank>},
    {"size", number<&Config::size>},
    {"local_rank", number<&Config::local_rank>},
    {"local_size", number<&Config::local_size>},
    {"job", text<&Config::job>},
    {"host", text<&Config::host>},
    {"rack", text<&Config::rack>},
    {"local_domain", text<&Config::local_domain>},
    {"address", text<&Config::address>},
    {"strategy", text<&Config::strategy>},
    {"directory", text<&Config::directory>},
    {"controller", text<&Config::controller>},
    {"token", text<&Config::token>},
    {"timeout", seconds<&Config::timeout>},
    {"create_timeout", seconds<&Config::create_timeout>},
    {"lanes", number<&Config::lanes>},
    {"slots", number<&Config::slots>},
    {"servers", text<&Config::servers>},
    {"shared_bytes", bytes<&Config::shared_bytes>},
    {"link_rate", rate<&Config::link_rate>},
    {"switch_rate", rate<&Config::switch_rate>},
    {"quiet", flag<&Config::quiet>},
};

tl::unexpected<Error> unknown_setting(const char* name) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("unknown setting '{}'; there are {}", name, fmt::join(setting_names(), ", ")));
}

}  // namespace

std::vector<const char*> setting_names() {
  std::vector<const char*> names;
  for (const Setting& each : kSettings) names.push_back(each.name);
  return names;
}

std::optional<std::chrono::milliseconds> milliseconds_of(double seconds) {
  if (!(seconds > 0 && seconds <= kLongestTimeout)) return std::nullopt;  // NaN is neither
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1e3)));
}

bool fits_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

Expected<void> set_by_name(Config& config, const char* name, const char* value, const char* shown) {
  for (const Setting& each : kSettings) {
    if (std::strcmp(each.name, name) == 0) return each.set(config, shown != nullptr ? shown : name, value);
  }
  return unknown_setting(name);
}

}  // namespace passing
