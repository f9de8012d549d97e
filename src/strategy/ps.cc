// Parameter servers: ranks push their tensors, servers sum, ranks pull the results; piece by piece, so that
// both directions of every link are busy.
//
//   ps               every rank pushes to servers (`passing server`), each of which owns a range of keys
//   ps_hierarchical  the first rank of every host pushes what the ranks of its host have summed up
//   ps_sharded       no servers of their own: the first rank of every host owns a range of keys
#include <map>

#include "net/desk.h"
#include "strategy/relay.h"
#include "strategy/strategy.h"

namespace passing::strategy {
namespace {

// The first rank of each host, in order of rank.
std::vector<std::uint32_t> leaders_of(const std::vector<std::string>& hosts) {
  std::map<std::string, std::uint32_t> first;
  std::vector<std::uint32_t> leaders;
  for (std::uint32_t r = 0; r < hosts.size(); ++r) {
    if (first.emplace(hosts[r], r).second) leaders.push_back(r);
  }
  return leaders;
}

class ParameterServers : public Strategy {
 public:
  ParameterServers(net::Enrolled enrolled, std::optional<std::uint32_t> leader,
                   std::vector<std::uint32_t> followers, bool others_watch)
      : enrolled_(std::move(enrolled)),
        leader_(leader),
        followers_(std::move(followers)),
        others_watch_(others_watch) {}

  std::vector<net::Place> servers() const override { return enrolled_.servers(); }

  // A rank that only waits for its leader would blame it for a server that is stopped. The leaders know
  // better, and if one of them does not answer, the others do.
  bool watches_deadlines(const Call& /*call*/) const override { return leader_ && others_watch_; }

  Task all_reduce(Context& context, const Call& call) override {
    const auto count = static_cast<std::uint32_t>(enrolled_.servers().size());
    std::vector<std::optional<std::uint32_t>> owners;
    for (std::uint32_t server = 0; server < count; ++server) {
      if (!leader_) context.describe_to(context.size() + server, call);
      owners.emplace_back(context.size() + server);
    }
    Relay own{.pieces = pieces_of(call.signature, owners),
              .children = followers_,
              .input = static_cast<const std::byte*>(call.input),
              .output = static_cast<std::byte*>(call.output)};
    if (leader_) {
      for (RelayPiece& each : own.pieces) each.parent = leader_;
    }
    return relay(context, call.signature, context.size(), std::move(own));
  }

 private:
  net::Enrolled enrolled_;
  std::optional<std::uint32_t> leader_;   // who pushes for this rank, if it does not itself
  std::vector<std::uint32_t> followers_;  // for whom this rank pushes
  bool others_watch_;                     // there is another host, with a leader of its own
};

class Sharded : public Strategy {
 public:
  explicit Sharded(std::vector<std::uint32_t> owners) : owners_(std::move(owners)) {}

  Task all_reduce(Context& context, const Call& call) override;

 private:
  std::vector<std::uint32_t> owners_;
};

Task Sharded::all_reduce(Context& context, const Call& call) {
  const std::vector<std::optional<std::uint32_t>> owners(owners_.begin(), owners_.end());
  Relay pushed{.input = static_cast<const std::byte*>(call.input),
               .output = static_cast<std::byte*>(call.output)};
  Relay served = pushed;
  for (RelayPiece& each : pieces_of(call.signature, owners)) {
    if (each.parent != context.rank()) {
      pushed.pieces.push_back(each);
    } else {
      served.pieces.push_back({each.range, std::nullopt});
    }
  }
  for (std::uint32_t r = 0; r < context.size(); ++r) {
    if (r != context.rank()) served.children.push_back(r);
  }
  Task push = relay(context, call.signature, context.size(), std::move(pushed));
  Task serve = relay(context, call.signature, context.size(), std::move(served));
  push.start();
  serve.start();
  co_await push;
  co_await serve;
}

}  // namespace

Expected<std::unique_ptr<Strategy>> make_ps(const Setup& setup, bool hierarchical) {
  const Config& config = setup.config;
  std::optional<std::uint32_t> leader;
  std::vector<std::uint32_t> followers;
  if (hierarchical) {
    for (std::uint32_t r = 0; r < config.size; ++r) {
      if (setup.hosts[r] != setup.hosts[config.rank]) continue;
      if (r < config.rank && !leader) leader = r;
      if (r > config.rank && !leader) followers.push_back(r);
    }
  }
  auto enrolled = net::Enrolled::enrol(setup.servers,
                                       {.version = PASSING_VERSION_STRING,
                                        .job = config.job,
                                        .token = config.token,
                                        .name = setup.names[config.rank],
                                        .address = setup.address,
                                        .group = setup.group,
                                        .rank = config.rank,
                                        .size = config.size,
                                        .pushes = !leader},
                                       config.create_timeout.count() * kMillisecond);
  if (!enrolled) return tl::unexpected(enrolled.error());
  const bool others_watch = leaders_of(setup.hosts).size() > 1;
  return std::make_unique<ParameterServers>(std::move(*enrolled), leader, std::move(followers), others_watch);
}

std::unique_ptr<Strategy> make_ps_sharded(const Setup& setup) {
  return std::make_unique<Sharded>(leaders_of(setup.hosts));
}

}  // namespace passing::strategy
