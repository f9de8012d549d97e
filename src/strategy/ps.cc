// Parameter servers: ranks push their tensors, servers sum, ranks pull the results; piece by piece, so that
// both directions of every link are busy.
//
//   ps               every rank pushes to servers (`passing server`), each of which owns a range of keys
//   ps_hierarchical  the first rank of every host pushes what the ranks of its host have summed up
//   ps_sharded       no servers of their own: the first rank of every host owns a range of keys
#include "net/desk.h"
#include "strategy/hierarchical.h"
#include "strategy/reduce.h"
#include "strategy/relay.h"
#include "strategy/strategy.h"

namespace passing::strategy {
namespace {

// What the servers own, and how to push to them.
class Servers {
 public:
  static Expected<Servers> enrol(const Setup& setup, bool pushes) {
    const Config& config = setup.config;
    auto enrolled = net::Enrolled::enrol(setup.servers,
                                         {.version = PASSING_VERSION_STRING,
                                          .job = config.job,
                                          .token = config.token,
                                          .name = setup.names[config.rank],
                                          .address = setup.address,
                                          .group = setup.group,
                                          .rank = config.rank,
                                          .size = config.size,
                                          .pushes = pushes},
                                         config.create_timeout.count() * kMillisecond, config.quiet);
    if (!enrolled) return tl::unexpected(enrolled.error());
    return Servers(std::move(*enrolled));
  }

  const std::vector<net::Place>& list() const { return enrolled_.servers(); }

  Task push_and_pull(Context& context, const Call& call, const void* input, void* output) const {
    std::vector<std::optional<std::uint32_t>> owners;
    for (std::uint32_t server = 0; server < list().size(); ++server) {
      context.describe_to(context.size() + server, call);
      owners.emplace_back(context.size() + server);
    }
    return relay(context, call.signature, context.size(),
                 {.pieces = pieces_of(call.signature, owners),
                  .children = {},
                  .input = static_cast<const std::byte*>(input),
                  .output = static_cast<std::byte*>(output)});
  }

 private:
  explicit Servers(net::Enrolled enrolled) : enrolled_(std::move(enrolled)) {}
  net::Enrolled enrolled_;
};

class ParameterServers : public Strategy {
 public:
  explicit ParameterServers(Servers servers) : servers_(std::move(servers)) {}

  std::vector<net::Place> servers() const override { return servers_.list(); }
  Task all_reduce(Context& context, const Call& call) override {
    return servers_.push_and_pull(context, call, call.input, call.output);
  }

 private:
  Servers servers_;
};

// The sums of a host, pushed by its first rank, in the type itself.
class ServersAcross : public Across {
 public:
  explicit ServersAcross(Servers servers) : servers_(std::move(servers)) {}

  const Servers& servers() const { return servers_; }
  std::uint32_t owners(const Call& /*call*/) const override { return 1; }
  std::size_t leg(const Call& call) const override { return call.signature.count; }
  std::size_t legs_at_once() const override { return 1; }
  Task carry(Context& context, const Call& call, const Leg& leg) override {
    const void* sums = leg.sums;
    if (inhost::wide_type(call.signature.type) != call.signature.type) {
      finish_host_sums(call.signature.type, Reduction::sum, 1, sums, leg.count, leg.results);
      sums = leg.results;
    }
    return servers_.push_and_pull(context, call, sums, leg.results);
  }

 private:
  Servers servers_;
};

class HierarchicalServers : public Hierarchical {
 public:
  HierarchicalServers(const Setup& setup, Servers servers)
      : Hierarchical(setup.hosts, setup.host), across_(std::move(servers)) {}

  std::vector<net::Place> servers() const override { return across_.servers().list(); }

 private:
  // The servers are there for one host too.
  bool goes_across() const override { return true; }
  Across& across(const Call& /*call*/) override { return across_; }
  ServersAcross across_;
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

Expected<std::unique_ptr<Strategy>> make_ps(const Setup& setup) {
  auto servers = Servers::enrol(setup, true);
  if (!servers) return tl::unexpected(servers.error());
  return std::make_unique<ParameterServers>(std::move(*servers));
}

Expected<std::unique_ptr<Strategy>> make_ps_hierarchical(const Setup& setup) {
  auto servers = Servers::enrol(setup, setup.hosts.index == 0);
  if (!servers) return tl::unexpected(servers.error());
  return std::make_unique<HierarchicalServers>(setup, std::move(*servers));
}

std::unique_ptr<Strategy> make_ps_sharded(const Setup& setup) {
  return std::make_unique<Sharded>(setup.hosts.row(0));
}

}  // namespace passing::strategy
