#include "communicator/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/carriers.h"
#include "wire/wire.h"

namespace passing {
namespace {

constexpr double kHighestRate = 1e6;  // Gbit/s

bool fits_a_job(const Config& c) {
  return !c.job.empty() && c.job.size() <= kLongestJob && std::ranges::all_of(c.job, fits_a_name);
}

bool is_known_strategy(const Config& c) { return std::ranges::count(strategies(), chosen_strategy(c)) > 0; }

template <std::chrono::milliseconds Config::*field>
bool fits_a_timeout(const Config& c) {
  const double seconds = std::chrono::duration<double>(c.*field).count();
  return seconds > 0 && seconds <= kLongestTimeout;
}

template <double Config::*field>
bool fits_a_rate(const Config& c) {
  return c.*field >= 0 && c.*field <= kHighestRate;
}

const std::string& timeout_range() {
  static const std::string range = fmt::format("above 0, at most {:.0f}", kLongestTimeout);
  return range;
}

const std::string& rate_range() {
  static const std::string range = fmt::format("above 0, at most {:.0f}, or 0 if not known", kHighestRate);
  return range;
}

// Who a process is, and whom it works with.
std::vector<Setting> of_ranks() {
  return {
      {"rank", number<&Config::rank>(), "Which of the job's ranks this process is.", "0 to size - 1", nullptr,
       true},
      {"size", number<&Config::size>(),
       "How many ranks the job has. At most 1024 if they meet through the controller.",
       fmt::format("1 to {}", kMostRanks),
       [](const Config& c) { return c.size >= 1 && c.size <= kMostRanks; }, true},
      {"local_rank", number<&Config::local_rank>(), "Which of the ranks on its host this process is.",
       "below local_size", nullptr, true},
      {"local_size", number<&Config::local_size>(), "How many ranks are on this host.", "above local_rank",
       nullptr, true},
      {"job", text<&Config::job>(),
       "The job's name. It is the same on all ranks, and no other job has it at the same time.",
       fmt::format("1 to {} letters, digits, dots, dashes or underscores", kLongestJob), fits_a_job, true},
      {"host", text<&Config::host>(),
       "A label: ranks with the same one share memory. If no rank of a machine has a label, the ranks of "
       "that machine that can share memory do.",
       "", nullptr},
      {"rack", text<&Config::rack>(), "A label: hosts with the same one are below one switch of the network.",
       "", nullptr},
      {"local_domain", text<&Config::local_domain>(),
       "Who sums before the switch does. `rack` is for thin links between racks, with the strategies "
       "`passing` and `auto`.",
       "host or rack", [](const Config& c) { return c.local_domain == "host" || c.local_domain == "rack"; }},
  };
}

// Which way the sums go, and where ranks meet.
std::vector<Setting> of_ways() {
  return {
      {"address", text<&Config::address>(),
       "The IP by which other ranks reach this one. Empty: the address of the interface by which the others "
       "are reached.",
       "", nullptr},
      {"strategy", text<&Config::strategy>(),
       "How an all-reduce is carried out ([communicator.md](communicator.md#strategies)). Empty: `auto`.",
       fmt::format("one of {}", fmt::join(strategies(), ", ")), is_known_strategy},
      {"carrier", text<&Config::carrier>(),
       "What carries data between ranks ([mesh.md](mesh.md#carriers)). `memory` is for ranks that are "
       "threads "
       "of one process, without parameter servers.",
       fmt::format("one of {}", fmt::join(net::carriers(), ", ")),
       [](const Config& c) { return std::ranges::count(net::carriers(), c.carrier) > 0; }},
      {"directory", text<&Config::directory>(),
       "A directory that all ranks share, in which they find each other.", "", nullptr},
      {"controller", text<&Config::controller>(),
       "HOST:PORT of the switch's controller. Ranks also meet there if there is no directory.", "", nullptr},
      {"token", text<&Config::token>(),
       "The job's secret, the same on all ranks. `PASSING_TOKEN_FILE` can name a file with it instead.",
       fmt::format("{} characters or more, if a controller is asked", net::kShortestToken), nullptr, true},
  };
}

// How long, how much, how fast.
std::vector<Setting> of_limits() {
  return {
      {"timeout", seconds<&Config::timeout>(), "How long an operation may take until it fails.",
       timeout_range(), fits_a_timeout<&Config::timeout>},
      {"create_timeout", seconds<&Config::create_timeout>(),
       "How long ranks wait for each other at the start.", timeout_range(),
       fits_a_timeout<&Config::create_timeout>},
      {"lanes", number<&Config::lanes>(),
       "Parallel streams to the switch. In `passing` and `ring_hierarchical` they are stripes of a tensor, "
       "at most as many as the fewest ranks of a host. 0: chosen, at most 4.",
       fmt::format("1 to {}, or 0 for the default", PASSING_MAX_LANES),
       [](const Config& c) { return c.lanes <= PASSING_MAX_LANES; }},
      {"slots", number<&Config::slots>(),
       "Slots of the switch per lane. 0: 256 over all lanes, fewer at a large MTU.",
       fmt::format("a power of two from 1 to {}, or 0 for the default", PASSING_MAX_SLOTS),
       [](const Config& c) {
         return c.slots == 0 || (std::has_single_bit(c.slots) && c.slots <= PASSING_MAX_SLOTS);
       }},
      {"servers", text<&Config::servers>(),
       "The parameter servers of the strategies `ps` and `ps_hierarchical`.",
       "HOST:PORT of each, separated by commas", nullptr},
      {"shared_bytes", bytes<&Config::shared_bytes>(),
       "Memory that this rank shares with others of its host. Larger tensors go in pieces.", "", nullptr},
      {"link_rate", rate<&Config::link_rate>(),
       "What `auto` assumes of a host's link, each way; with racks, of an uplink. 0: the slowest that the "
       "hosts' interfaces say, or 10.",
       rate_range(), fits_a_rate<&Config::link_rate>},
      {"switch_rate", rate<&Config::switch_rate>(),
       "What `auto` assumes that the switch takes in from all hosts together. 0: 12, what a processor can "
       "sum.",
       rate_range(), fits_a_rate<&Config::switch_rate>},
      {"quiet", flag<&Config::quiet>(),
       "1: no lines on standard error about what is waited for while ranks meet and join the switch.",
       "0 or 1", nullptr},
  };
}

tl::unexpected<Error> unknown_setting(const char* name) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("unknown setting '{}'; there are {}", name, fmt::join(setting_names(), ", ")));
}

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> joined = of_ranks();
    for (auto& part : {of_ways(), of_limits()}) joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  }();
  return all;
}

std::vector<const char*> setting_names() {
  std::vector<const char*> names;
  for (const Setting& each : settings()) names.push_back(each.name);
  return names;
}

std::string variable_of(std::string_view name) {
  std::string variable = fmt::format("PASSING_{}", name);
  for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

bool fits_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

Expected<void> set_by_name(Config& config, const char* name, const char* value, const char* shown) {
  for (const Setting& each : settings()) {
    if (std::string_view(each.name) != name) continue;
    if (each.field.set(config, value)) return {};
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{} is '{}': must be {}", shown != nullptr ? shown : name, value, each.field.kind));
  }
  return unknown_setting(name);
}

}  // namespace passing
