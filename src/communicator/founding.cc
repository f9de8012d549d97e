#include "communicator/founding.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/hash.h"
#include "base/shortage.h"
#include "communicator/settings.h"
#include "net/address.h"
#include "net/carriers.h"
#include "net/member.h"
#include "net/rendezvous.h"

namespace passing {
namespace {

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

Introduction introduction_of(const Config& config, const std::string& host) {
  return {.version = PASSING_VERSION_STRING,
          .trouble = {},
          .strategy = config.strategy,
          .host = host,
          .rack = config.rack,
          .local_domain = config.local_domain,
          .carrier = config.carrier,
          .process = static_cast<std::uint32_t>(getpid()),
          .rank = config.rank,
          .size = config.size,
          .lanes = config.lanes,
          .has_switch = !config.controller.empty()};
}

}  // namespace

Founding::Founding(Config config) : group_(std::make_unique<Group>()), servers_(chosen_servers(config)) {
  group_->config = std::move(config);
  group_->host_name = host_label(group_->config);
  group_->ground.rank = group_->config.rank;
  group_->ground.size = group_->config.size;
  group_->ground.contacts.resize(group_->config.size + servers_.size());
  group_->left.resize(group_->config.size);
  own_ = introduction_of(group_->config, group_->host_name);
}

Expected<Founded> Founding::found() {
  if (alone()) {
    own_.address = "this process";
    group_->names = {own_.name()};
    witness_ = std::make_unique<Witness>(*group_);
    return Founded{std::move(group_), std::move(witness_)};
  }
  for (const auto step :
       {&Founding::open, &Founding::meet, &Founding::share_memory, &Founding::make_strategy}) {
    if (auto done = (this->*step)(); !done) return tl::unexpected(done.error());
  }
  group_->config.exchange = nullptr;  // may refer to what ends with the call
  return Founded{std::move(group_), std::move(witness_)};
}

// What others reach this rank by.
Expected<void> Founding::open() {
  const Config& config = group_->config;
  // By the way to what all ranks must reach.
  const auto local = net::own_address(
      config.address, config.controller.empty() && !servers_.empty() ? servers_[0] : config.controller);
  if (!local) return tl::unexpected(local.error());
  auto carrier = net::make_carrier(config.carrier, config.rank,
                                   static_cast<std::uint32_t>(config.size + servers_.size()), *local);
  if (!carrier) return tl::unexpected(carrier.error());
  group_->carrier = std::move(*carrier);
  group_->ground.carrier = group_->carrier.get();
  auto control = Control::create(config.rank, config.size, *local);
  if (!control) return tl::unexpected(control.error());
  group_->control = std::move(*control);
  own_.address = group_->carrier->address();
  own_.control = group_->control->address();
  own_.link_rate = config.link_rate > 0 ? config.link_rate : net::link_rate(*local);
  if (config.switch_rate > 0) own_.switch_rate = config.switch_rate;
  if (strategy::shares_memory(config.strategy)) {
    auto opened = inhost::Door::open();
    if (!opened) return tl::unexpected(opened.error());
    door_ = std::move(*opened);
  }
  own_.place = inhost::Place::here(own_.version, config.host, door_ ? door_->name() : "",
                                   {.shared_bytes = config.shared_bytes})
                   .encode();
  return {};
}

// Finds the others.
Expected<void> Founding::meet() {
  const Config& config = group_->config;
  const auto blobs = pick_exchange(config)(own_.encode());
  if (!blobs) return tl::unexpected(blobs.error());
  const auto all = check_introductions(own_, *blobs);
  if (!all) return tl::unexpected(all.error());
  std::vector<std::string> controls;
  for (const Introduction& each : *all) {
    group_->names.push_back(each.name());
    addresses_.push_back(each.address);
    controls.push_back(each.control);
    places_.push_back(inhost::Place::decode(each.place).value_or(inhost::Place{}));
  }
  id_ = kHashBegin;
  for (const std::string& blob : *blobs) id_ = hash_of(blob, id_);
  const net::Key key = net::key_of(config.token);
  if (auto known = group_->carrier->introduce(addresses_, id_, key); !known) return known;
  if (auto known = group_->control->introduce(controls, id_, key); !known) return known;
  witness_ = std::make_unique<Witness>(*group_);
  return find_places(*all);
}

// Who shares a host and a rack, and what auto goes by.
Expected<void> Founding::find_places(const std::vector<Introduction>& all) {
  const Config& config = group_->config;
  setup_.emplace(strategy::Setup{.config = config,
                                 .names = group_->names,
                                 .hosts = {},
                                 .host = nullptr,
                                 .servers = servers_,
                                 .address = own_.address,
                                 .racks = {},
                                 .plan = {},
                                 .group = id_});
  if (door_ || strategy::needs_hosts(config.strategy)) {
    auto hosts = hosts_of(places_, config.rank);
    if (!hosts) return tl::unexpected(hosts.error());
    setup_->hosts = std::move(*hosts);
    if (config.local_domain == "rack") {
      auto racks = racks_of(setup_->hosts, all);
      if (!racks) return tl::unexpected(racks.error());
      setup_->racks = std::move(*racks);
    }
  }
  if (config.strategy == "auto") {
    group_->plan = strategy::Plan{.hosts = setup_->hosts.size(),
                                  .ranks = config.size,
                                  .racks = setup_->racks ? setup_->racks->size() : 0,
                                  .has_switch = all.front().has_switch,
                                  .link_rate = slowest_link(all),
                                  .switch_rate = all.front().switch_rate};
    setup_->plan = group_->plan;
  }
  return {};
}

Expected<void> Founding::share_memory() {
  if (!door_) return {};
  const auto joined = join_hosts();
  setup_->host = group_->host;
  return agree(1, "to share memory with its neighbours", joined);
}

Expected<void> Founding::join_hosts() {
  const Config& config = group_->config;
  const auto& here = setup_->hosts.here();
  if (here.size() == 1) return {};
  std::vector<std::string> names;
  names.reserve(here.size());
  for (const std::uint32_t rank : here) names.push_back(group_->names[rank]);
  auto joined = inhost::Host::join(*door_, {.ranks = here,
                                            .rank = config.rank,
                                            .group = id_,
                                            .names = std::move(names),
                                            .leader = places_[here[0]].door,
                                            .settings = {.shared_bytes = config.shared_bytes},
                                            .timeout = config.create_timeout.count() * kMillisecond});
  if (!joined) return tl::unexpected(joined.error());
  group_->host = std::move(*joined);
  return {};
}

Expected<void> Founding::make_strategy() {
  auto made = strategy::make_strategy(group_->config.strategy, *setup_);
  auto own_way = made ? introduce_servers((*made)->servers()) : tl::unexpected(made.error());
  // Only some ranks of a host have a way out of it.
  if (door_) own_way = agree(2, "to join the switch or its servers", own_way);
  if (!own_way) {
    if (made) (*made)->abandon(own_way.error());
    return own_way;
  }
  group_->strategy = std::move(*made);
  witness_->founded();
  return {};
}

// Before all ranks are known to be ready: others may begin earlier, and then a server has something for this
// rank.
Expected<void> Founding::introduce_servers(const std::vector<net::Place>& servers) {
  for (const net::Place& server : servers) {
    group_->names.push_back(server.name);
    witness_->add_server(server.name);
    addresses_.push_back(net::to_string(server.address));
  }
  return group_->carrier->introduce(addresses_, id_, net::key_of(group_->config.token));
}

// All have what this step gives, or nobody goes on: docs/faults.md section 9. To the judge it is an
// operation.
Expected<void> Founding::agree(std::uint64_t step, const char* purpose, const Expected<void>& own) {
  const Duration limit = group_->config.create_timeout.count() * kMillisecond + kLater;
  if (own) {
    witness_->founding_step(step, net::monotonic_now() + limit);
  } else {
    witness_->fail(own.error());
  }
  witness_->heed();
  std::uint32_t round = 0;
  bool all = false;
  if (own) witness_->tell_ready(step, round);
  net::Waiting waiting(group_->own_name(), group_->config.quiet);
  witness_->settle(limit + kLater, [&] {
    waiting.look([&] { return fmt::format("all ranks, {}", purpose); });
    if (own) pass_readiness(step, round);
    all = own && std::uint64_t{1} << round >= group_->config.size;
    if (all) witness_->idle();
    return witness_->failure().has_value() || (all && group_->control->all_sent());
  });
  if (all && !witness_->failure()) return {};
  if (!witness_->failure()) witness_->await_decision();
  witness_->set_failure({ErrorCode::deadline, fmt::format("all ranks were waited for, {}", purpose), {}});
  witness_->await_all_know();
  // Who could not be heard for want of a descriptor is not to blame.
  if (witness_->failure()->code == ErrorCode::deadline && group_->control->refused().waiting > 0)
    return system_failure(ErrorCode::unreachable, "cannot accept a connection", EMFILE);
  return tl::unexpected(*witness_->failure());
}

// Round k: tells the rank 2^k to the right, and hears from the one 2^k to the left, of twice as many as
// before.
void Founding::pass_readiness(std::uint64_t step, std::uint32_t& round) {
  while (std::uint64_t{1} << round < group_->config.size && witness_->heard_ready(step, round)) {
    ++round;
    witness_->tell_ready(step, round);
  }
}

}  // namespace passing
