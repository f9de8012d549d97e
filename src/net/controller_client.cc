#include "net/controller_client.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/shortage.h"
#include "net/answers.h"
#include "net/hex.h"
#include "net/waiting.h"

namespace passing::net {
namespace {

using nlohmann::json;

constexpr int kRepeats = 2;

std::size_t append(char* data, std::size_t size, std::size_t count, void* to) {
  try {
    static_cast<std::string*>(to)->append(data, size * count);
  } catch (const std::bad_alloc&) {
    return 0;  // not through curl: it gives up
  }
  return size * count;
}

template <class T>
using Handle = std::unique_ptr<T, void (*)(T*)>;

// curl says that it cannot connect, not why there is no socket: this keeps the reason.
curl_socket_t open_socket(void* reason, curlsocktype /*purpose*/, curl_sockaddr* address) {
  const int made = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  if (made < 0) *static_cast<int*>(reason) = errno;
  return made < 0 ? CURL_SOCKET_BAD : made;
}

// The error number of what ran out here; 0: nothing did.
int shortage(CURLcode code, int no_socket) {
  if (is_shortage(no_socket)) return no_socket;
  return code == CURLE_OUT_OF_MEMORY || code == CURLE_WRITE_ERROR ? ENOMEM : 0;
}

// curl_easy_perform, but ended by the limits at once.
CURLcode perform(CURL* curl, const ControllerClient::Limits& limits) {
  const Time end = std::min(limits.deadline, monotonic_now() + limits.timeout);
  const Handle<CURLM> multi(curl_multi_init(), [](CURLM* each) { curl_multi_cleanup(each); });
  if (!multi || curl_multi_add_handle(multi.get(), curl) != CURLM_OK) return CURLE_OUT_OF_MEMORY;
  CURLcode code = CURLE_OPERATION_TIMEDOUT;
  for (bool over = false; !over;) {
    int running = 0;
    if (curl_multi_perform(multi.get(), &running) != CURLM_OK) {
      code = CURLE_OUT_OF_MEMORY;  // what else there is are mistakes of ours
      break;
    }
    int left = 0;
    if (const CURLMsg* message = curl_multi_info_read(multi.get(), &left); message != nullptr) {
      code = message->data.result;
      break;
    }
    const Duration rest = end - monotonic_now();
    curl_waitfd interrupt{limits.interrupt, CURL_WAIT_POLLIN, 0};
    const auto time = static_cast<int>(std::clamp<Duration>(rest / kMillisecond, 0, INT_MAX));
    const auto polled =
        curl_multi_poll(multi.get(), &interrupt, limits.interrupt >= 0 ? 1 : 0, time, nullptr);
    if (polled != CURLM_OK) code = CURLE_OUT_OF_MEMORY;
    if (interrupt.revents != 0) code = CURLE_ABORTED_BY_CALLBACK;
    over = polled != CURLM_OK || interrupt.revents != 0 || rest <= 0;
  }
  curl_multi_remove_handle(multi.get(), curl);
  return code;
}

// What went wrong, in words; those of curl do not know our limits.
std::string explain(CURLcode code, const char* problem) {
  if (code == CURLE_OPERATION_TIMEDOUT) return "it takes too long";
  return problem[0] != 0 ? problem : curl_easy_strerror(code);
}

Expected<json> parse(const std::string& address, const Expected<std::string>& text) {
  if (!text) return tl::unexpected(text.error());
  json body = json::parse(*text, nullptr, false);
  if (!body.is_object()) {
    return fail(ErrorCode::unreachable, fmt::format("{} does not answer like a PASSING controller", address));
  }
  return body;
}

}  // namespace

Expected<std::string> ControllerClient::request(const std::string& path, const std::string* body,
                                                std::string* answered_from, bool repeatable) const {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  PASSING_ASSERT(ready);
  const Handle<CURL> curl(curl_easy_init(), curl_easy_cleanup);
  std::string answer;
  char problem[CURL_ERROR_SIZE] = "";
  const std::string url = "http://" + address_ + path;
  const Handle<curl_slist> headers(curl_slist_append(nullptr, "Content-Type: application/json"),
                                   curl_slist_free_all);
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROXY, "*");
#if LIBCURL_VERSION_NUM >= 0x075700
  // The end of a request does not wait for a name server that does not answer.
  curl_easy_setopt(curl.get(), CURLOPT_QUICK_EXIT, 1L);
#endif
  int no_socket = 0;
  curl_easy_setopt(curl.get(), CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_easy_setopt(curl.get(), CURLOPT_OPENSOCKETDATA, &no_socket);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, problem);
  if (body != nullptr) {
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body->c_str());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body->size()));
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  }
  CURLcode code = perform(curl.get(), limits_);
  // On a path that loses packets an exchange may take longer than one waits for it: another may not.
  const auto late = [&] { return code == CURLE_OPERATION_TIMEDOUT && monotonic_now() < limits_.deadline; };
  for (int again = 0; again < kRepeats && repeatable && late(); ++again) {
    answer.clear();
    code = perform(curl.get(), limits_);
  }
  if (const int reason = shortage(code, no_socket); code != CURLE_OK && reason != 0) {
    return system_failure(ErrorCode::no_capacity, fmt::format("cannot ask the controller at {}", address_),
                          reason);
  }
  if (code != CURLE_OK) {
    return fail(ErrorCode::unreachable,
                fmt::format("the controller at {} does not answer: {}", address_, explain(code, problem)));
  }
  char* ip = nullptr;
  if (answered_from != nullptr && curl_easy_getinfo(curl.get(), CURLINFO_PRIMARY_IP, &ip) == CURLE_OK &&
      ip != nullptr)
    *answered_from = ip;
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == 200) return answer;
  const auto sentence = read_refusal(answer);
  return fail(
      status == 409 ? ErrorCode::no_capacity : ErrorCode::invalid_argument,
      sentence ? *sentence : fmt::format("the controller at {} answers {} to {}", address_, status, path));
}

Expected<std::string> ControllerClient::get(const std::string& path) const { return request(path, nullptr); }

Expected<SwitchDescription> ControllerClient::describe() const {
  std::string connected;
  const auto body = parse(address_, request("/v1/switch", nullptr, &connected));
  if (!body) return tl::unexpected(body.error());
  SwitchDescription result;
  try {
    result.elements = body->at("elements").get<std::uint32_t>();
    result.mtu = body->at("mtu").get<int>();
    result.little_endian = body->at("byte_order") == "little";
    result.boot = body->value("boot", "");
    // Where the controller really answered: its name may have addresses of both families.
    const bool six = connected.find(':') != std::string::npos;
    const auto controller = parse_address(six ? "[" + connected + "]:0" : connected + ":0");
    if (!controller) return tl::unexpected(controller.error());
    for (const json& lane : body->at("lanes")) {
      auto address = parse_address(lane.get<std::string>());
      if (!address) return tl::unexpected(address.error());
      // A switch that listens everywhere is where its controller is.
      const auto ip = to_protocol(*address).ip;
      if (std::all_of(ip.begin(), ip.begin() + 10, [](auto b) { return b == 0; }) && ip[12] == 0 &&
          ip[15] == 0) {
        const std::uint16_t port = address->port();
        address = *controller;
        address->set_port(port);
      }
      result.lanes.push_back(*address);
    }
  } catch (const json::exception&) {
    return fail(ErrorCode::unreachable,
                fmt::format("{} does not answer like a PASSING controller", address_));
  }
  return result;
}

Expected<JoinReply> ControllerClient::join(const std::string& job, const std::string& token,
                                           std::uint32_t size, std::uint32_t rank, std::uint32_t lanes,
                                           std::uint32_t slots, const std::vector<std::string>& addresses,
                                           bool rejoin) const {
  const std::string text =
      json{{"token", token}, {"size", size},           {"rank", rank},    {"lanes", lanes},
           {"slots", slots}, {"addresses", addresses}, {"rejoin", rejoin}}
          .dump();
  // The controller knows by its sockets who asks twice.
  const auto body = parse(address_, request("/v1/jobs/" + job + "/join", &text, nullptr, !addresses.empty()));
  if (!body) return tl::unexpected(body.error());
  try {
    return JoinReply{.job = body->at("job").get<std::uint32_t>(),
                     .epoch = body->at("epoch").get<std::uint32_t>(),
                     .key = parse_hex64(body->at("key").get<std::string>()).value_or(0)};
  } catch (const json::exception&) {
    return fail(ErrorCode::unreachable,
                fmt::format("{} does not answer like a PASSING controller", address_));
  }
}

Expected<JobState> ControllerClient::look(const std::string& job, std::uint64_t key, std::uint32_t rank,
                                          bool patient) const {
  const std::string text = write_member(key, rank);
  const auto answer = request("/v1/jobs/" + job + "/look", &text, nullptr, patient);
  if (!answer) return tl::unexpected(answer.error());
  if (auto state = read_job_state(*answer)) return *std::move(state);
  return fail(ErrorCode::unreachable, fmt::format("{} does not answer like a PASSING controller", address_));
}

Expected<void> ControllerClient::leave(const std::string& job, std::uint64_t key, std::uint32_t rank) const {
  const std::string text = write_member(key, rank);
  const auto answer = request("/v1/jobs/" + job + "/leave", &text);
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

Expected<void> ControllerClient::give(const std::string& job, std::uint64_t key, std::uint32_t rank,
                                      const std::string& tag, const std::string& blob) const {
  const std::string text = json{{"key", to_hex(key)}, {"rank", rank}, {"blob", blob}}.dump();
  const auto answer = request(fmt::format("/v1/jobs/{}/blobs/{}", job, tag), &text);
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

Expected<Blobs> ControllerClient::take(const std::string& job, std::uint64_t key,
                                       const std::string& tag) const {
  const std::string text = json{{"key", to_hex(key)}}.dump();
  const auto body = parse(address_, request(fmt::format("/v1/jobs/{}/blobs/{}/take", job, tag), &text));
  if (!body) return tl::unexpected(body.error());
  try {
    return Blobs{.all = body->at("blobs").get<std::vector<std::string>>(),
                 .missing = body->at("missing").get<std::vector<std::uint16_t>>()};
  } catch (const json::exception&) {
    return fail(ErrorCode::unreachable,
                fmt::format("{} does not answer like a PASSING controller", address_));
  }
}

}  // namespace passing::net
