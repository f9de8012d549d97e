// The controller as a member sees it: docs/controller.md, over libcurl.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "net/address.h"

namespace passing::net {

/// What GET /v1/switch says.
struct SwitchDescription {
  std::uint32_t elements = 0;
  int mtu = 0;
  bool little_endian = true;
  std::string boot;  ///< differs whenever the switch has been started anew
  std::vector<SocketAddress> lanes;
};

struct JoinReply {
  std::uint32_t job = 0;
  std::uint32_t epoch = 0;
  std::uint64_t key = 0;
};

struct JobState {
  enum class Phase : std::uint8_t { forming, running, ended };
  Phase phase = Phase::forming;
  std::vector<std::uint16_t> missing;
  std::vector<std::string> addresses;
  std::string reason;
};

/// What everyone gave, by rank; none while someone is missing.
struct Blobs {
  std::vector<std::string> all;
  std::vector<std::uint16_t> missing;
};

/// Of a request other than join: whether the controller has not refused it, but not had it at all, because it
/// does not answer or this process has no descriptor left to ask it. Another try may succeed.
inline bool unasked(const Error& error) {
  return error.code == ErrorCode::unreachable || error.code == ErrorCode::no_capacity;
}

/// Requests to one controller. Any thread may make one. Errors name its address.
class ControllerClient {
 public:
  struct Limits {
    Duration timeout = 5 * kSecond;  ///< of a request,
    Time deadline = INT64_MAX;       ///< which is over by then in any case,
    int interrupt = -1;              ///< and as soon as this descriptor can be read
  };

  explicit ControllerClient(std::string address) : address_(std::move(address)) {}
  ControllerClient(std::string address, const Limits& limits)
      : address_(std::move(address)), limits_(limits) {}

  const std::string& address() const { return address_; }

  Expected<SwitchDescription> describe() const;
  /// `request` is the body of POST /v1/jobs/NAME/join as docs/controller.md has it.
  Expected<JoinReply> join(const std::string& job, const std::string& token, std::uint32_t size,
                           std::uint32_t rank, std::uint32_t lanes, std::uint32_t slots,
                           const std::vector<std::string>& addresses, bool rejoin) const;
  Expected<JobState> look(const std::string& job, std::uint64_t key, std::uint32_t rank,
                          bool patient = false) const;
  Expected<void> leave(const std::string& job, std::uint64_t key, std::uint32_t rank) const;
  Expected<void> give(const std::string& job, std::uint64_t key, std::uint32_t rank, const std::string& tag,
                      const std::string& blob) const;
  Expected<Blobs> take(const std::string& job, std::uint64_t key, const std::string& tag) const;
  /// The body of any GET, for status displays.
  Expected<std::string> get(const std::string& path) const;

 private:
  /// `answered_from`: gets the numeric address that answered. `repeatable`: asked again if it takes too long.
  Expected<std::string> request(const std::string& path, const std::string* body,
                                std::string* answered_from = nullptr, bool repeatable = false) const;

  std::string address_;  // HOST:PORT
  Limits limits_;
};

}  // namespace passing::net
