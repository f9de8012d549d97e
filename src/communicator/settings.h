// Settings of a communicator by name: "rank", "strategy", "timeout", ... One table says all about each: C and
// C++ set it, the environment is read, ranges are checked and docs/configuration.md is written by it. To add
// one: a field of Config, a row in settings.cc, and the page anew (passing settings).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/field.h"
#include "net/limits.h"
#include "passing/config.h"

namespace passing {

struct Setting {
  const char* name;
  Field field;
  std::string meaning;          ///< one or two sentences of Markdown
  std::string range;            ///< "must be ..."; empty: whatever the field can be
  bool (*fits)(const Config&);  ///< whether it is in its range; null: that depends on other settings
  bool read_apart = false;      ///< environment.cc does, since more than the variable may say it
};

const std::vector<Setting>& settings();

/// Of all settings.
std::vector<const char*> setting_names();

/// PASSING_ and its name.
std::string variable_of(std::string_view name);

/// One sentence names the setting (as `shown`, if given), if there is none or its value is no good. Ranges
/// are validate()'s business.
Expected<void> set_by_name(Config& config, const char* name, const char* value, const char* shown = nullptr);

/// Which variables of a launcher say where a process stands, and whose job it is part of.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job;                             ///< empty: it has none
  std::string (*name_of)(const std::string&);  ///< the job's name, made of that
  const char* beside;                          ///< what else is looked at, separated by commas
  const char* sign = nullptr;  ///< if given: others who set rank and size do not set this variable
};

/// In the order in which they are asked. The first is ourselves.
std::span<const Launcher> launchers();

/// The strategy, or the one that an empty setting stands for.
std::string chosen_strategy(const Config& config);

/// The parameter servers of a strategy that uses them.
std::vector<std::string> chosen_servers(const Config& config);

constexpr std::uint32_t kMostRanks = 65535;

/// What is derived from a job's name ("JOB.rendezvous") must suit the controller too.
constexpr std::size_t kLongestJob = net::kLongestName - 28;
bool fits_a_name(char c);

}  // namespace passing
