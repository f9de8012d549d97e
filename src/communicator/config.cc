#include "passing/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "communicator/settings.h"
#include "net/limits.h"
#include "wire/wire.h"

namespace passing {
namespace {

auto refuse(std::string sentence) { return fail(ErrorCode::invalid_argument, std::move(sentence)); }

Expected<void> check_each(const Config& c) {
  for (const Setting& each : settings()) {
    if (each.fits == nullptr || each.fits(c)) continue;
    const Field& field = each.field;
    return refuse(fmt::format("{} is {}{}{}{}{}: must be {} ({})", each.name, field.quote, field.show(c),
                              field.quote, *field.unit == 0 ? "" : " ", field.unit, each.range,
                              variable_of(each.name)));
  }
  return {};
}

Expected<void> check_ranks(const Config& c) {
  if (c.rank >= c.size) {
    return refuse(fmt::format("rank is {}: must be 0 to {} (PASSING_RANK)", c.rank, c.size - 1));
  }
  if (c.local_rank >= c.local_size) {
    return refuse(fmt::format("local_rank is {}: must be below local_size, {} (PASSING_LOCAL_RANK)",
                              c.local_rank, c.local_size));
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
  if (c.carrier == "memory" && uses_servers(strategy)) {
    return refuse(
        fmt::format("carrier is 'memory' but the strategy '{}' has servers, which are other processes: set "
                    "PASSING_CARRIER to tcp, or PASSING_STRATEGY to another one",
                    strategy));
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

}  // namespace

Expected<void> Config::validate() const {
  return check_each(*this)
      .and_then([&] { return check_ranks(*this); })
      .and_then([&] { return check_strategy(*this); })
      .and_then([&] { return check_rendezvous(*this); });
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
