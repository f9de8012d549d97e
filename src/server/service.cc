#include "server/service.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "strategy/reduce.h"
#include "strategy/relay.h"

namespace passing::server {

namespace tags = strategy::tags;

Service::Service(std::unique_ptr<net::Mesh> mesh, Group group, std::function<void(const std::string&)> log)
    : group_(std::move(group)), log_(std::move(log)), mesh_(std::move(mesh)) {
  ground_.rank = group_.size + group_.index;
  ground_.size = group_.size;
  ground_.carrier = mesh_.get();
  ground_.contacts.resize(group_.size);
}

Expected<std::unique_ptr<Service>> Service::start(std::unique_ptr<net::Mesh> mesh, Group group,
                                                  std::function<void(const std::string&)> log) {
  std::unique_ptr<Service> service(new Service(std::move(mesh), std::move(group), std::move(log)));
  service->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (service->wake_ < 0)
    return system_failure(ErrorCode::no_capacity, "cannot make an event descriptor", errno);
  auto thread = start_thread([raw = service.get()] { raw->run(); });
  if (!thread) return tl::unexpected(thread.error());
  service->thread_ = std::move(*thread);
  return service;
}

Service::~Service() {
  if (thread_.joinable()) {
    stop_ = true;
    eventfd_write(wake_, 1);
    thread_.join();
  }
  if (wake_ >= 0) ::close(wake_);
  mesh_.reset();  // before the buffers of what is under way
}

void Service::run() {
  pthread_setname_np(pthread_self(), "passing-service");
  try {
    while (!stop_) {
      mesh_->progress();
      take_calls();
      while (!ground_.ready.empty()) {
        const auto next = ground_.ready.front();
        ground_.ready.pop_front();
        next.resume();
      }
      mesh_->flush();
      if (!ground_.ready.empty()) continue;
      std::erase_if(sums_, [](const auto& each) { return each->task.done(); });
      static_cast<void>(mesh_->take_lost());
      if (const auto& fault = mesh_->fault()) {
        log_(fmt::format("a group of {} ranks has failed: {}", group_.size, fault->message));
        break;  // ranks see the connections go, here too
      }
      if (mesh_->refused().waiting > 0 && !std::exchange(warned_, true)) {
        log_(
            fmt::format("a group of {} ranks: connections wait, since there is no descriptor left; raise the "
                        "limit (ulimit -n)",
                        group_.size));
      }
      pollfd sources[] = {{mesh_->descriptor(), POLLIN, 0}, {wake_, POLLIN, 0}};
      ::poll(sources, 2, -1);
    }
  } catch (const std::exception& problem) {
    // Ranks see the connections go.
    log_(fmt::format("a group of {} ranks has failed: {}; give the server more memory", group_.size,
                     problem.what()));
  }
  ground_.ready.clear();
  mesh_.reset();
  sums_.clear();
}

void Service::take_calls() {
  while (auto message = mesh_->take(tags::kCall, tags::kClassMask)) {
    auto call = strategy::Call::decode(message->data);
    // Each rank that pushes describes every call; the first one begins it.
    if (!call || call->number < begun_) continue;
    begun_ = call->number + 1;
    begin(std::move(*call));
  }
}

void Service::begin(strategy::Call call) {
  const strategy::Signature what = call.signature;
  constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;
  if (what.kind != strategy::Kind::all_reduce || what.count > kMostElements ||
      strategy::route(what.type, what.reduction) == strategy::Route::none) {
    return log_(fmt::format("a call that cannot be served: {}", what.describe()));
  }
  std::vector<std::optional<std::uint32_t>> owners(group_.of);
  for (std::uint32_t i = 0; i < group_.of; ++i) owners[i] = i;
  strategy::Relay own{.children = group_.children};
  for (const strategy::RelayPiece& each : strategy::pieces_of(what, owners)) {
    if (each.parent == group_.index) own.pieces.push_back({each.range, std::nullopt});
  }
  auto sum = std::make_unique<Sum>();
  sum->call = std::move(call);
  // A rank that is lost or calls something else: the others find out and end the group.
  sum->context = std::make_unique<strategy::Context>(
      ground_, sum->call, [](const Error&) {}, [](const net::Transfer&) {});
  sum->task = strategy::relay(*sum->context, what, group_.size, std::move(own));
  sum->task.start();
  sums_.push_back(std::move(sum));
}

}  // namespace passing::server
