// How a communicator begins: ranks find each other, and those of a host their shared memory.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/hash.h"
#include "base/shortage.h"
#include "communicator/engine.h"
#include "communicator/settings.h"
#include "inhost/host.h"
#include "net/address.h"
#include "net/carriers.h"
#include "net/member.h"
#include "net/proof.h"
#include "net/rendezvous.h"

namespace passing {
namespace {

// To tell neighbours that the group does not come about.
constexpr Duration kAllKnow = 500 * kMillisecond;
// Whoever knows what is wrong has so much longer than those who only wait.
constexpr Duration kLater = 5 * kSecond;

std::string host_label(const Config& config) {
  if (!config.host.empty()) return config.host;
  char name[256] = "?";
  gethostname(name, sizeof name - 1);
  return name;
}

Exchange pick_exchange(const Config& config) {
  if (config.exchange) return config.exchange;
  const net::Rendezvous who{.job = config.job,
                            .rank = config.rank,
                            .size = config.size,
                            .timeout = config.create_timeout.count() * kMillisecond,
                            .quiet = config.quiet};
  if (!config.directory.empty()) return net::directory_exchange(who, config.directory);
  return net::controller_exchange(who, config.controller, config.token);
}

Expected<std::vector<Introduction>> check(const Introduction& own, const std::vector<std::string>& blobs) {
  if (blobs.size() != own.size) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the rendezvous gave {} blobs for {} ranks", blobs.size(), own.size));
  }
  std::vector<Introduction> all;
  for (std::uint32_t r = 0; r < own.size; ++r) {
    auto other = Introduction::decode(blobs[r]);
    if (!other || !other->trouble.empty()) {
      const auto version = Introduction::version_of(blobs[r]);
      if (!other && version && *version != own.version) {
        return fail(ErrorCode::disagreement,
                    fmt::format("rank {} has version {} of the library, {} has {}: give all ranks the same",
                                r, *version, own.name(), own.version),
                    {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(own.rank)});
      }
      if (other) {
        return fail(ErrorCode::peer_lost, fmt::format("rank {} cannot take part: {}", r, other->trouble),
                    {static_cast<std::uint16_t>(r)});
      }
      return fail(
          ErrorCode::disagreement,
          fmt::format(
              "what rank {} gave at the rendezvous cannot be read: do all ranks run the same version?", r),
          {static_cast<std::uint16_t>(r)});
    }
    const auto differ = [&](const char* what, const auto& theirs, const auto& ours) {
      return fail(ErrorCode::disagreement,
                  fmt::format("{} has {} {}, {} has {}: give all ranks the same", other->name(), what, theirs,
                              own.name(), ours),
                  {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(own.rank)});
    };
    if (other->version != own.version) return differ("version", other->version, own.version);
    if (other->rank != r || other->size != own.size) {
      return fail(ErrorCode::disagreement,
                  fmt::format("{} of {} was given as rank {} of {}: check the launcher's variables",
                              other->name(), other->size, r, own.size),
                  {static_cast<std::uint16_t>(r)});
    }
    if (other->strategy != own.strategy) return differ("strategy", other->strategy, own.strategy);
    if (other->local_domain != own.local_domain)
      return differ("local_domain", other->local_domain, own.local_domain);
    if (other->carrier != own.carrier) return differ("carrier", other->carrier, own.carrier);
    if (own.carrier == "memory" && other->process != own.process) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("carrier is 'memory' but {} and {} are different processes: set PASSING_CARRIER "
                      "to tcp on all ranks",
                      other->name(), own.name()),
          {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(own.rank)});
    }
    if (other->lanes != own.lanes) return differ("lanes", other->lanes, own.lanes);
    if (own.strategy == "auto" && other->switch_rate != own.switch_rate)
      return differ("switch_rate", other->switch_rate, own.switch_rate);
    if (own.strategy == "auto" && other->has_switch != own.has_switch)
      return differ("a controller:", other->has_switch, own.has_switch);
    all.push_back(std::move(*other));
  }
  return all;
}

// In Gbit/s, of those that know theirs.
double slowest_link(const std::vector<Introduction>& all) {
  double slowest = 0;
  for (const Introduction& each : all) {
    if (each.link_rate > 0 && (slowest == 0 || each.link_rate < slowest)) slowest = each.link_rate;
  }
  return slowest > 0 ? slowest : strategy::Plan{}.link_rate;
}

// All hosts, and this rank's place in them.
Expected<strategy::Hosts> hosts_of(const std::vector<inhost::Place>& places, std::uint32_t rank) {
  strategy::Hosts hosts;
  std::vector<bool> placed(places.size());
  for (std::uint32_t r = 0; r < places.size(); ++r) {
    if (placed[r]) continue;
    auto ranks = inhost::neighbours(places, r);
    if (!ranks) return tl::unexpected(ranks.error());
    for (std::uint32_t i = 0; i < ranks->size(); ++i) {
      placed[(*ranks)[i]] = true;
      if ((*ranks)[i] != rank) continue;
      hosts.own = static_cast<std::uint32_t>(hosts.ranks.size());
      hosts.index = i;
    }
    hosts.ranks.push_back(std::move(*ranks));
  }
  return hosts;
}

// All racks, and the place of this rank's host in them. Ranks of a host are in the same.
Expected<strategy::Racks> racks_of(const strategy::Hosts& hosts, const std::vector<Introduction>& all) {
  strategy::Racks racks;
  std::vector<std::string> labels;
  for (std::uint32_t h = 0; h < hosts.size(); ++h) {
    const Introduction& first = all[hosts.ranks[h][0]];
    for (const std::uint32_t rank : hosts.ranks[h]) {
      if (all[rank].rack == first.rack) continue;
      return fail(ErrorCode::disagreement,
                  fmt::format("{} and {} share a host, but their racks are '{}' and '{}': give them the same "
                              "PASSING_RACK",
                              first.name(), all[rank].name(), first.rack, all[rank].rack),
                  {static_cast<std::uint16_t>(first.rank), static_cast<std::uint16_t>(rank)});
    }
    const auto found = std::find(labels.begin(), labels.end(), first.rack);
    const auto index = static_cast<std::size_t>(found - labels.begin());
    if (found == labels.end()) {
      labels.push_back(first.rack);
      racks.hosts.emplace_back();
    }
    if (h == hosts.own) {
      racks.own = static_cast<std::uint32_t>(index);
      racks.position = static_cast<std::uint32_t>(racks.hosts[index].size());
    }
    racks.hosts[index].push_back(h);
  }
  return racks;
}

}  // namespace

// Finds the others.
Expected<void> Engine::meet() {
  host_name_ = host_label(config_);
  Introduction own{.version = PASSING_VERSION_STRING,
                   .trouble = {},
                   .strategy = config_.strategy,
                   .host = host_name_,
                   .rack = config_.rack,
                   .local_domain = config_.local_domain,
                   .carrier = config_.carrier,
                   .process = static_cast<std::uint32_t>(getpid()),
                   .rank = config_.rank,
                   .size = config_.size,
                   .lanes = config_.lanes,
                   .has_switch = !config_.controller.empty()};
  ground_.rank = config_.rank;
  ground_.size = config_.size;
  const auto servers = chosen_servers(config_);
  const std::size_t peers = config_.size + servers.size();
  ground_.contacts.resize(peers);
  left_.resize(config_.size);
  if (config_.size == 1) {
    own.address = "this process";
    names_ = {own.name()};
    make_judge();
    return {};
  }
  // By the way to what all ranks must reach.
  const auto local = net::own_address(
      config_.address, config_.controller.empty() && !servers.empty() ? servers[0] : config_.controller);
  if (!local) return tl::unexpected(local.error());
  auto carrier = net::make_carrier(config_.carrier, config_.rank, static_cast<std::uint32_t>(peers), *local);
  if (!carrier) return tl::unexpected(carrier.error());
  carrier_ = std::move(*carrier);
  ground_.carrier = carrier_.get();
  auto control = net::Mesh::create(config_.rank, config_.size, *local);
  if (!control) return tl::unexpected(control.error());
  control_ = std::move(*control);
  own.address = carrier_->address();
  own.control = control_->address();
  own.link_rate = config_.link_rate > 0 ? config_.link_rate : net::link_rate(control_->socket_address());
  if (config_.switch_rate > 0) own.switch_rate = config_.switch_rate;
  std::optional<inhost::Door> door;
  if (strategy::shares_memory(config_.strategy)) {
    auto opened = inhost::Door::open();
    if (!opened) return tl::unexpected(opened.error());
    door = std::move(*opened);
  }
  own.place = inhost::Place::here(own.version, config_.host, door ? door->name() : "",
                                  {.shared_bytes = config_.shared_bytes})
                  .encode();
  const auto blobs = pick_exchange(config_)(own.encode());
  if (!blobs) return tl::unexpected(blobs.error());
  const auto all = check(own, *blobs);
  if (!all) return tl::unexpected(all.error());
  std::vector<std::string> addresses;
  std::vector<std::string> controls;
  std::vector<inhost::Place> places;
  for (const Introduction& each : *all) {
    names_.push_back(each.name());
    addresses.push_back(each.address);
    controls.push_back(each.control);
    places.push_back(inhost::Place::decode(each.place).value_or(inhost::Place{}));
  }
  std::uint64_t group = kHashBegin;
  for (const std::string& blob : *blobs) group = hash_of(blob, group);
  const net::Key key = net::key_of(config_.token);
  if (auto known = carrier_->introduce(addresses, group, key); !known) return known;
  if (auto known = control_->introduce(controls, group, key); !known) return known;
  make_judge();
  strategy::Setup setup{.config = config_,
                        .names = names_,
                        .hosts = {},
                        .host = nullptr,
                        .servers = servers,
                        .address = own.address,
                        .racks = {},
                        .plan = {},
                        .group = group};
  if (door || strategy::needs_hosts(config_.strategy)) {
    auto hosts = hosts_of(places, config_.rank);
    if (!hosts) return tl::unexpected(hosts.error());
    setup.hosts = std::move(*hosts);
    if (config_.local_domain == "rack") {
      auto racks = racks_of(setup.hosts, *all);
      if (!racks) return tl::unexpected(racks.error());
      setup.racks = std::move(*racks);
    }
  }
  if (config_.strategy == "auto") {
    plan_ = strategy::Plan{.hosts = setup.hosts.size(),
                           .ranks = config_.size,
                           .racks = setup.racks ? setup.racks->size() : 0,
                           .has_switch = all->front().has_switch,
                           .link_rate = slowest_link(*all),
                           .switch_rate = all->front().switch_rate};
    setup.plan = plan_;
  }
  if (door) {
    auto shared = share_memory(*door, setup.hosts, places, group);
    if (auto agreed = agree(1, "to share memory with its neighbours", shared); !agreed)
      return tl::unexpected(agreed.error());
    setup.host = host_;
  }
  auto made = strategy::make_strategy(config_.strategy, setup);
  if (door) {
    // Only some ranks of a host have a way out of it.
    const auto own_way = made ? Expected<void>() : tl::unexpected(made.error());
    if (auto agreed = agree(2, "to join the switch or its servers", own_way); !agreed) {
      if (made) (*made)->abandon(agreed.error());
      return tl::unexpected(agreed.error());
    }
  }
  if (!made) return tl::unexpected(made.error());
  strategy_ = std::move(*made);
  for (const net::Place& server : strategy_->servers()) {
    names_.push_back(server.name);
    judge_->add_names({server.name});
    addresses.push_back(net::to_string(server.address));
  }
  if (auto known = carrier_->introduce(addresses, group, key); !known) return known;
  judge_->called(kFoundingSteps);
  judge_->idle();
  config_.exchange = nullptr;  // may refer to what ends with the call
  return {};
}

Expected<void> Engine::share_memory(const inhost::Door& door, const strategy::Hosts& hosts,
                                    const std::vector<inhost::Place>& places, std::uint64_t group) {
  if (hosts.here().size() == 1) return {};
  std::vector<std::string> names;
  for (const std::uint32_t rank : hosts.here()) names.push_back(names_[rank]);
  auto joined = inhost::Host::join(door, {.ranks = hosts.here(),
                                          .rank = config_.rank,
                                          .group = group,
                                          .names = std::move(names),
                                          .leader = places[hosts.here()[0]].door,
                                          .settings = {.shared_bytes = config_.shared_bytes},
                                          .timeout = config_.create_timeout.count() * kMillisecond});
  if (!joined) return tl::unexpected(joined.error());
  host_ = std::move(*joined);
  heap_.share(host_);
  return {};
}

// All have what this step gives, or nobody goes on: docs/faults.md section 9. To the judge it is an
// operation.
Expected<void> Engine::agree(std::uint64_t step, const char* purpose, const Expected<void>& own) {
  const Time now = net::monotonic_now();
  const Duration limit = config_.create_timeout.count() * kMillisecond + kLater;
  if (own) {
    judge_->called(step);
    judge_->turn({step - 1, now, now + limit, 0});
  } else {
    fail_group(own.error());
  }
  heed_judge();
  std::uint32_t round = 0;
  bool all = false;
  net::Waiting waiting(names_[config_.rank], config_.quiet);
  settle(limit + kLater, [&] {
    waiting.look([&] { return fmt::format("all ranks, {}", purpose); });
    if (own) pass_readiness(step, round);
    all = own && std::uint64_t{1} << round >= config_.size;
    if (all) judge_->idle();
    return failure_.has_value() || (all && control_->sends_pending() == 0);
  });
  if (all && !failure_) return {};
  if (!failure_) await_decision();
  if (!failure_)
    failure_ = Error{ErrorCode::deadline, fmt::format("all ranks were waited for, {}", purpose), {}};
  settle(kAllKnow, [this] { return judge_->all_know() && control_->sends_pending() == 0; });
  // Who could not be heard for want of a descriptor is not to blame.
  if (failure_->code == ErrorCode::deadline && control_->refused().waiting > 0)
    return system_failure(ErrorCode::unreachable, "cannot accept a connection", EMFILE);
  return tl::unexpected(*failure_);
}

// Round k: tells the rank 2^k to the right, and hears from the one 2^k to the left, of twice as many as
// before.
void Engine::pass_readiness(std::uint64_t step, std::uint32_t& round) {
  const auto tell_next = [&] {
    const std::uint64_t distance = std::uint64_t{1} << round;
    if (distance < config_.size)
      tell(static_cast<std::uint32_t>((config_.rank + distance) % config_.size),
           {.type = Control::Type::ready, .number = step << 8 | round});
  };
  if (round == 0 && (ready_[0] >> step & 1) == 0) {
    ready_[0] |= std::uint64_t{1} << step;  // it has begun
    tell_next();
  }
  while (std::uint64_t{1} << round < config_.size && (ready_[step] >> round & 1) != 0) {
    ++round;
    tell_next();
  }
}

}  // namespace passing
