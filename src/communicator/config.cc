#include "passing/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/error.h"
#include "communicator/settings.h"
#include "net/limits.h"
#include "wire/wire.h"

namespace passing {
namespace {

constexpr std::uint32_t kMostRanks = 65535;
constexpr double kHighestRate = 1e6;  // Gbit/s

auto refuse(std::string sentence) { return fail(ErrorCode::invalid_argument, std::move(sentence)); }

Expected<void> check_ranks(const Config& c) {
  if (c.size < 1 || c.size > kMostRanks) {
    return refuse(fmt::format("size is {}: must be 1 to {} (PASSING_SIZE)", c.size, kMostRanks));
  }
  if (c.rank >= c.size) {
    return refuse(fmt::format("rank is {}: must be 0 to {} (PASSING_RANK)", c.rank, c.size - 1));
  }
  if (c.local_rank >= c.local_size) {
    return refuse(fmt::format("local_rank is {}: must be below local_size, {} (PASSING_LOCAL_RANK)",
                              c.local_rank, c.local_size));
  }
  if (c.job.empty() || c.job.size() > kLongestJob || !std::all_of(c.job.begin(), c.job.end(), fits_a_name)) {
    return refuse(
        fmt::format("job is '{}': use 1 to {} letters, digits, dots, dashes or underscores (PASSING_JOB)",
                    c.job, kLongestJob));
  }
  return {};
}

bool uses_switch(const Config& c) {
  const std::string strategy = chosen_strategy(c);
  return strategy == "in_network" ||
         (!c.controller.empty() && c.size > 1 && (strategy == "auto" || strategy == "passing"));
}

bool uses_servers(const std::string& strategy) { return strategy == "ps" || strategy == "ps_hierarchical"; }

Expected<void> check_strategy(const Config& c) {
  const std::string strategy = chosen_strategy(c);
  const auto known = strategies();
  if (std::find(known.begin(), known.end(), strategy) == known.end()) {
    return refuse(fmt::format("strategy is '{}': must be one of {} (PASSING_STRATEGY)", strategy,
                              fmt::join(known, ", ")));
  }
  if (c.local_domain != "host" && c.local_domain != "rack") {
    return refuse(
        fmt::format("local_domain is '{}': must be host or rack (PASSING_LOCAL_DOMAIN)", c.local_domain));
  }
  if (c.local_domain == "rack" && strategy != "auto" && strategy != "passing") {
    return refuse(fmt::format(
        "local_domain is 'rack' but the strategy '{}' has no racks: set PASSING_STRATEGY to passing "
        "or auto, or PASSING_LOCAL_DOMAIN to host",
        strategy));
  }
  if (c.local_domain == "rack" && c.rack.empty() && c.size > 1) {
    return refuse(
        "local_domain is 'rack' but rack is empty: set PASSING_RACK to the label of this host's rack");
  }
  if (const auto servers = chosen_servers(c); c.size > 1 && uses_servers(strategy)) {
    const auto empty = std::find(servers.begin(), servers.end(), "");
    if (servers.empty() || empty != servers.end()) {
      return refuse(fmt::format(
          "servers is '{}': the strategy '{}' wants HOST:PORT of each parameter server, separated "
          "by commas (PASSING_SERVERS)",
          c.servers, strategy));
    }
    if (c.size + servers.size() > kMostRanks) {
      return refuse(fmt::format("size is {}: with {} servers it must be at most {} (PASSING_SIZE)", c.size,
                                servers.size(), kMostRanks - servers.size()));
    }
  }
  if (strategy != "in_network") return {};
  if (c.controller.empty()) {
    return refuse(
        "strategy is 'in_network' but controller is empty: set PASSING_CONTROLLER to HOST:PORT of the "
        "switch, or "
        "PASSING_STRATEGY to ring");
  }
  if (c.size > PASSING_MAX_MEMBERS) {
    return refuse(
        fmt::format("size is {}: the strategy 'in_network' takes at most {} ranks; set PASSING_STRATEGY "
                    "to ring",
                    c.size, PASSING_MAX_MEMBERS));
  }
  return {};
}

Expected<void> check_rendezvous(const Config& c) {
  const bool elsewhere = c.exchange || !c.directory.empty() || c.size == 1;
  if (!elsewhere && c.controller.empty()) {
    return refuse(
        fmt::format("size is {} but nothing says how ranks find each other: set PASSING_DIRECTORY to a "
                    "directory that all share, or PASSING_CONTROLLER to HOST:PORT of the switch",
                    c.size));
  }
  if (!elsewhere && c.size > net::kMostRendezvous) {
    return refuse(
        fmt::format("size is {}: a controller brings at most {} ranks together; set PASSING_DIRECTORY to "
                    "a directory that all share",
                    c.size, net::kMostRendezvous));
  }
  if ((!elsewhere || uses_switch(c)) && c.token.size() < net::kShortestToken) {
    return refuse(
        fmt::format("token has {} characters: the controller wants at least {}, the same on all ranks "
                    "(PASSING_TOKEN or PASSING_TOKEN_FILE)",
                    c.token.size(), net::kShortestToken));
  }
  return {};
}

Expected<void> check_timeout(const char* name, std::chrono::milliseconds timeout, const char* set_by) {
  const double seconds = std::chrono::duration<double>(timeout).count();
  if (seconds > 0 && seconds <= kLongestTimeout) return {};
  return refuse(fmt::format("{} is {} seconds: must be above 0, at most {:.0f} ({})", name, seconds,
                            kLongestTimeout, set_by));
}

Expected<void> check_limits(const Config& c) {
  if (auto good = check_timeout("timeout", c.timeout, "PASSING_TIMEOUT"); !good) return good;
  if (auto good = check_timeout("create_timeout", c.create_timeout, "PASSING_CREATE_TIMEOUT"); !good)
    return good;
  for (const auto& [name, rate, set_by] : {std::tuple{"link_rate", c.link_rate, "PASSING_LINK_RATE"},
                                           {"switch_rate", c.switch_rate, "PASSING_SWITCH_RATE"}}) {
    if (!(rate >= 0 && rate <= kHighestRate)) {
      return refuse(fmt::format("{} is {} Gbit/s: must be above 0, at most {:g}, or 0 if not known ({})",
                                name, rate, kHighestRate, set_by));
    }
  }
  if (c.lanes > PASSING_MAX_LANES) {
    return refuse(fmt::format("lanes is {}: must be 1 to {}, or 0 for the switch's choice (PASSING_LANES)",
                              c.lanes, PASSING_MAX_LANES));
  }
  if (c.slots != 0 && (!std::has_single_bit(c.slots) || c.slots > PASSING_MAX_SLOTS)) {
    return refuse(
        fmt::format("slots is {}: must be a power of two from 1 to {}, or 0 for the default "
                    "(PASSING_SLOTS)",
                    c.slots, PASSING_MAX_SLOTS));
  }
  return {};
}

}  // namespace

Expected<void> Config::validate() const {
  return check_ranks(*this)
      .and_then([&] { return check_strategy(*this); })
      .and_then([&] { return check_rendezvous(*this); })
      .and_then([&] { return check_limits(*this); });
}

std::vector<std::string> strategies() {
  return {"auto",    "ring", "halving_doubling", "ring_hierarchical", "in_network",
          "passing", "ps",   "ps_hierarchical",  "ps_sharded"};
}

std::vector<std::string> chosen_servers(const Config& config) {
  std::vector<std::string> servers;
  if (!uses_servers(chosen_strategy(config)) || config.servers.empty()) return servers;
  for (std::size_t at = 0; at <= config.servers.size();) {
    const std::size_t comma = std::min(config.servers.find(',', at), config.servers.size());
    servers.push_back(config.servers.substr(at, comma - at));
    at = comma + 1;
  }
  return servers;
}

std::string chosen_strategy(const Config& config) {
  return config.strategy.empty() ? "auto" : config.strategy;
}

}  // namespace passing
