#include "communicator/world.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "controller/server.h"
#include "dataplane/userspace/userspace.h"
#include "net/mtu.h"
#include "server/server.h"

namespace passing::test {

Exchange Table::exchange(std::uint32_t rank) {
  return [this, rank](const std::string& blob) -> Expected<std::vector<std::string>> {
    std::unique_lock lock(mutex_);
    blobs_[rank] = blob;
    ++given_;
    all_.notify_all();
    if (!all_.wait_for(lock, std::chrono::seconds(60), [this] { return given_ == blobs_.size(); }))
      return tl::unexpected(Error{ErrorCode::deadline, "not everyone came to the table", {}});
    return blobs_;
  };
}

struct LocalSwitch::Parts {
  std::unique_ptr<dataplane::UserspaceDataplane> dataplane;
  std::unique_ptr<controller::Registry> registry;
  std::unique_ptr<controller::Server> server;
};

LocalSwitch::LocalSwitch() : parts_(std::make_unique<Parts>()) {
  auto dataplane = dataplane::UserspaceDataplane::start(
      {.listen = *net::parse_address("127.0.0.1:0"),
       .threads = 2,
       .capabilities = {.elements = net::elements_for_mtu(1500), .slots = 4096}});
  EXPECT_TRUE(dataplane) << dataplane.error().message;
  parts_->dataplane = std::move(*dataplane);
  parts_->registry = std::make_unique<controller::Registry>(
      *parts_->dataplane, controller::Registry::Options{.lease = 30 * kSecond});
  auto server = controller::Server::start(*parts_->registry, *parts_->dataplane,
                                          {.host = "127.0.0.1", .port = 0, .mtu = 1500});
  EXPECT_TRUE(server) << server.error().message;
  parts_->server = std::move(*server);
}

LocalSwitch::~LocalSwitch() {
  parts_->server.reset();
  parts_->registry.reset();
}

std::string LocalSwitch::controller() const { return "127.0.0.1:" + std::to_string(parts_->server->port()); }

struct LocalServers::Parts {
  std::vector<std::unique_ptr<server::ParameterServer>> servers;
};

LocalServers::LocalServers(std::uint32_t count) : parts_(std::make_unique<Parts>()) {
  for (std::uint32_t i = 0; i < count; ++i) {
    auto server = server::ParameterServer::start(
        {.listen = *net::parse_address("127.0.0.1:0"), .index = i, .of = count});
    EXPECT_TRUE(server) << server.error().message;
    parts_->servers.push_back(std::move(*server));
  }
}

LocalServers::~LocalServers() = default;

std::string LocalServers::addresses() const {
  std::string all;
  for (const auto& each : parts_->servers) all += (all.empty() ? "" : ",") + net::to_string(each->address());
  return all;
}

void LocalServers::drop(std::uint32_t index) { parts_->servers[index].reset(); }

void parallel(std::uint32_t size, const std::function<void(std::uint32_t)>& body) {
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < size; ++r) threads.emplace_back([&body, r] { body(r); });
  for (auto& each : threads) each.join();
}

World::World(const std::string& strategy, std::uint32_t size, const std::function<void(Config&)>& change)
    : ranks_(size) {
  static std::atomic<int> worlds = 0;
  const int number = worlds++;
  if (strategy == "in_network" || strategy == "passing" || strategy == "auto")
    switch_ = std::make_unique<LocalSwitch>();
  if (strategy == "ps" || strategy == "ps_hierarchical") servers_ = std::make_unique<LocalServers>(2);
  const std::uint32_t per_host = strategy.starts_with("ps_") || strategy == "passing" ||
                                         strategy == "ring_hierarchical" || strategy == "auto"
                                     ? 2
                                     : 1;
  Table table(size);
  parallel(size, [&](std::uint32_t rank) {
    Config config;
    config.rank = rank;
    config.size = size;
    config.strategy = strategy;
    config.job = "world-" + std::to_string(number);
    config.host = "host-" + std::to_string(rank / per_host);
    config.exchange = table.exchange(rank);
    config.timeout = std::chrono::seconds(60);  // a machine of CI may stand still for a while
    config.create_timeout = std::chrono::seconds(60);
    if (switch_) {
      config.controller = switch_->controller();
      config.token = "a token for tests";
    }
    if (servers_) config.servers = servers_->addresses();
    config.link_rate = 1;  // so that auto goes every way
    if (change) change(config);
    auto made = Communicator::create(config);
    ASSERT_TRUE(made) << made.error().message;
    ranks_[rank].emplace(std::move(*made));
  });
}

World::~World() {
  parallel(size(), [this](std::uint32_t rank) { drop(rank); });
}

void World::run(const std::function<void(Communicator&)>& body) {
  parallel(size(), [&](std::uint32_t rank) { body(at(rank)); });
}

}  // namespace passing::test
