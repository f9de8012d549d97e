#include "controller/server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/mutex.h"
#include "controller/metrics.h"
#include "controller/random_key.h"
#include "net/hex.h"

namespace passing::controller {
namespace {

using nlohmann::json;

constexpr std::size_t kLargestBody = 4U << 20;
constexpr unsigned kThreads = 32;
constexpr int kBacklog = 1024;

Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void answer(httplib::Response& response, const json& body, int status = 200) {
  response.status = status;
  // Requests may carry bytes that are no UTF-8; an answer must not throw for them.
  response.set_content(body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json");
}

void refuse(httplib::Response& response, const Error& error) {
  answer(response, {{"error", error.message}}, error.code == ErrorCode::no_capacity ? 409 : 400);
}

// Reads fields of a request body; the first that is missing or of the wrong kind is remembered.
class Body {
 public:
  explicit Body(const std::string& text) : json_(json::parse(text, nullptr, false)) {
    if (!json_.is_object()) problem_ = "the body must be a JSON object";
  }

  std::string text(const char* key) {
    const auto found = look(key, "text");
    return found != nullptr && found->is_string() ? found->get<std::string>()
                                                  : missing<std::string>(key, "text");
  }
  std::uint32_t number(const char* key) {
    const auto found = look(key, "a number");
    if (found == nullptr || !found->is_number_unsigned() || found->get<std::uint64_t>() > UINT32_MAX) {
      return missing<std::uint32_t>(key, "a number from 0 to 4294967295");
    }
    return found->get<std::uint32_t>();
  }
  std::uint32_t number(const char* key, std::uint32_t otherwise) {
    return json_.is_object() && json_.contains(key) ? number(key) : otherwise;
  }
  bool flag(const char* key) {
    const json* found = json_.is_object() && json_.contains(key) ? &json_[key] : nullptr;
    return found != nullptr && found->is_boolean() && found->get<bool>();
  }
  std::uint64_t key() {
    const auto value = net::parse_hex64(text("key"));
    return value ? *value : missing<std::uint64_t>("key", "16 hexadecimal digits");
  }
  // None, if there is no such field.
  std::vector<std::string> texts(const char* key) {
    const auto found = look(key, "a list");
    std::vector<std::string> result;
    if (found == nullptr) return result;
    if (!found->is_array()) return missing<std::vector<std::string>>(key, "a list of texts");
    for (const json& each : *found) {
      if (!each.is_string()) return missing<std::vector<std::string>>(key, "a list of texts");
      result.push_back(each.get<std::string>());
    }
    return result;
  }

  const std::string& problem() const { return problem_; }

 private:
  const json* look(const char* key, const char*) {
    return json_.is_object() && json_.contains(key) ? &json_[key] : nullptr;
  }
  template <class T>
  T missing(const char* key, const char* expected) {
    if (problem_.empty()) problem_ = fmt::format("'{}' is missing or not {}", key, expected);
    return {};
  }

  json json_;
  std::string problem_;
};

json view_of(const JobView& job) {
  return {{"name", job.name},
          {"state", job.state},
          {"size", job.size},
          {"epoch", job.epoch},
          {"lanes", job.lanes},
          {"slots", job.slots},
          {"joined", job.joined},
          {"chunks_held", job.slots_in_use},
          {"chunks_completed", job.completed},
          {"lag", job.lag},
          {"waiting_for", job.waiting_for},
          {"waiting_seconds", job.waiting_seconds},
          {"addresses", job.addresses}};
}

}  // namespace

struct Server::State {
  State(Registry& r, dataplane::Dataplane& d, Options o) : registry(r), dataplane(d), options(std::move(o)) {}

  Registry& registry;
  dataplane::Dataplane& dataplane;
  Options options;
  const std::string boot = fmt::format("{:016x}", random_key());
  httplib::Server http;
  socket_t socket = -1;  // where it listens
  int port = 0;
  Time started = now();
  std::thread listener;
  std::thread housekeeper;
  Mutex mutex;
  std::condition_variable_any stopping;
  bool stop PASSING_GUARDED_BY(mutex) = false;

  void routes() {
    http.Get("/v1/health", [this](const httplib::Request&, httplib::Response& response) {
      answer(response, {{"status", "ok"},
                        {"version", PASSING_VERSION_STRING},
                        {"uptime_seconds", static_cast<double>(now() - started) / kSecond}});
    });
    http.Get("/v1/switch",
             [this](const httplib::Request&, httplib::Response& response) { describe(response); });
    http.Get("/v1/jobs", [this](const httplib::Request&, httplib::Response& response) {
      json jobs = json::array();
      for (const JobView& job : registry.view(now())) jobs.push_back(view_of(job));
      answer(response, {{"jobs", jobs}});
    });
    http.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(metrics_text(registry.totals(), registry.view(now())),
                           "text/plain; version=0.0.4");
    });
    http.Post("/v1/jobs/([^/]+)/join",
              [this](const auto& request, auto& response) { join(request, response); });
    http.Post("/v1/jobs/([^/]+)/look",
              [this](const auto& request, auto& response) { look(request, response); });
    http.Post("/v1/jobs/([^/]+)/leave",
              [this](const auto& request, auto& response) { leave(request, response); });
    http.Post("/v1/jobs/([^/]+)/blobs/([^/]+)",
              [this](const auto& request, auto& response) { give(request, response); });
    http.Post("/v1/jobs/([^/]+)/blobs/([^/]+)/take",
              [this](const auto& request, auto& response) { take(request, response); });
    http.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      const char* what = response.status == 404   ? "no such resource: see docs/controller.md"
                         : response.status == 413 ? "the body is too large: at most 4 MB"
                                                  : "the request could not be understood";
      answer(response, {{"error", what}}, response.status);
    });
    http.set_exception_handler(
        [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
          answer(response, {{"error", "the request could not be understood"}}, 400);
        });
  }

  void describe(httplib::Response& response) {
    const auto& capabilities = dataplane.capabilities();
    const auto totals = registry.totals();
    std::vector<std::string> lanes;
    for (std::uint32_t l = 0; l < PASSING_MAX_LANES; ++l)
      lanes.push_back(net::to_string(dataplane.lane_address(l)));
    answer(response, {{"dataplane", options.dataplane},
                      {"elements", capabilities.elements},
                      {"mtu", options.mtu},
                      {"byte_order", "little"},
                      {"segmentation", options.segmentation},
                      {"slots", totals.slots},
                      {"free_slots", totals.free_slots},
                      {"most_members", PASSING_MAX_MEMBERS},
                      {"boot", boot},
                      {"lanes", lanes}});
  }

  // Refuses a body that could not be read; true if the handler should go on.
  static bool understood(const Body& body, httplib::Response& response) {
    if (body.problem().empty()) return true;
    answer(response, {{"error", body.problem()}}, 400);
    return false;
  }

  void join(const httplib::Request& request, httplib::Response& response) {
    Body body(request.body);
    JoinRequest join{.job = request.matches[1],
                     .token = body.text("token"),
                     .size = body.number("size"),
                     .rank = body.number("rank"),
                     .lanes = body.number("lanes", 1),
                     .slots = 0,
                     .addresses = {},
                     .rejoin = body.flag("rejoin")};
    join.slots = body.number("slots", join.lanes == 0 ? 0 : 256);
    const auto addresses = body.texts("addresses");
    if (!understood(body, response)) return;
    if (addresses.size() > PASSING_MAX_LANES) {
      return answer(response, {{"error", "too many addresses: give one per lane, at most 64"}}, 400);
    }
    for (const std::string& text : addresses) {
      // Numbers only: a name would make a stranger's request wait for a name server.
      const auto address = net::parse_numeric_address(text);
      if (!address) return refuse(response, address.error());
      join.addresses.push_back(*address);
    }
    const auto membership = registry.join(now(), join);
    if (!membership) return refuse(response, membership.error());
    answer(response,
           {{"job", membership->job}, {"epoch", membership->epoch}, {"key", net::to_hex(membership->key)}});
  }

  void look(const httplib::Request& request, httplib::Response& response) {
    Body body(request.body);
    const auto key = body.key();
    const auto rank = body.number("rank");
    if (!understood(body, response)) return;
    const auto view = registry.look(now(), request.matches[1], key, rank);
    if (!view) return refuse(response, view.error());
    const char* state = view->state == MemberView::State::forming   ? "forming"
                        : view->state == MemberView::State::running ? "running"
                                                                    : "ended";
    answer(response, {{"state", state},
                      {"missing", view->missing},
                      {"addresses", view->addresses},
                      {"reason", view->reason}});
  }

  void leave(const httplib::Request& request, httplib::Response& response) {
    Body body(request.body);
    const auto key = body.key();
    const auto rank = body.number("rank");
    if (!understood(body, response)) return;
    const auto left = registry.leave(request.matches[1], key, rank);
    if (!left) return refuse(response, left.error());
    answer(response, json::object());
  }

  void give(const httplib::Request& request, httplib::Response& response) {
    Body body(request.body);
    const auto key = body.key();
    const auto rank = body.number("rank");
    const auto blob = body.text("blob");
    if (!understood(body, response)) return;
    const auto given = registry.give(request.matches[1], key, rank, request.matches[2], blob);
    if (!given) return refuse(response, given.error());
    answer(response, json::object());
  }

  void take(const httplib::Request& request, httplib::Response& response) {
    Body body(request.body);
    const auto key = body.key();
    if (!understood(body, response)) return;
    const auto blobs = registry.take(request.matches[1], key, request.matches[2]);
    if (!blobs) return refuse(response, blobs.error());
    answer(response, {{"blobs", blobs->all}, {"missing", blobs->missing}});
  }
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Expected<std::unique_ptr<Server>> Server::start(Registry& registry, dataplane::Dataplane& dataplane,
                                                const Options& options) {
  auto state = std::make_unique<State>(registry, dataplane, options);
  State& s = *state;
  s.http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  s.http.set_payload_max_length(kLargestBody);
  // A kept connection would hold a thread: 64 members must not starve each other.
  s.http.set_keep_alive_max_count(1);
  // Nor may a client that sends or reads slowly.
  s.http.set_read_timeout(2);
  s.http.set_write_timeout(2);
  s.http.set_tcp_nodelay(true);
  // Not the library's SO_REUSEPORT: a second switch on the same port must be refused, not share requests.
  s.http.set_socket_options([&s](socket_t socket) {
    s.socket = socket;
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  s.routes();
  const bool any = options.port == 0;
  s.port = any ? s.http.bind_to_any_port(options.host)
               : (s.http.bind_to_port(options.host, options.port) ? options.port : -1);
  if (s.port <= 0) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("cannot listen on HTTP {}:{}: the port is in use or the address is not this machine's",
                    options.host, options.port));
  }
  // The library lets 5 connections wait; whoever a rush of members turns away comes again in seconds.
  static_cast<void>(::listen(s.socket, kBacklog));
  s.listener = std::thread([&s] { s.http.listen_after_bind(); });
  // stop() does nothing before the listener runs.
  while (!s.http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  s.housekeeper = std::thread([&s] {
    const MutexLock lock(s.mutex);
    while (!s.stop) {
      s.stopping.wait_for(s.mutex, std::chrono::milliseconds(500));
      s.registry.housekeeping(now());
    }
  });
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() {
  {
    const MutexLock lock(state_->mutex);
    state_->stop = true;
  }
  state_->stopping.notify_all();
  state_->housekeeper.join();
  state_->http.stop();
  state_->listener.join();
}

std::uint16_t Server::port() const { return static_cast<std::uint16_t>(state_->port); }

}  // namespace passing::controller
