#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "base/error.h"
#include "net/controller_client.h"
#include "net/hex.h"
#include "net/limits.h"
#include "net/patience.h"
#include "net/rendezvous.h"

namespace passing::net {
namespace {

using Blob = std::string;

constexpr auto kHeartbeat = std::chrono::milliseconds(500);

// One rank's part in a meeting through a controller: a job without lanes. Everyone gives its blob, takes all,
// confirms that, and leaves when all have confirmed. A member that died while the job formed may still hold
// its rank and its blob there; but it cannot confirm, so its lease ends the epoch, and the others join the
// next.
//
// The controller keeps the blobs until all have left. Whoever comes for the next meeting before that waits in
// the next epoch, or tries again while its rank is taken.
class ControllerMeeting {
 public:
  ControllerMeeting(const Rendezvous& who, const std::string& controller, std::string token)
      : who_(who),
        client_(controller, {.deadline = monotonic_now() + who.timeout + kSecond}),
        token_(std::move(token)),
        job_(who.job + ".rendezvous"),
        patience_(who) {}

  Expected<std::vector<Blob>> run(const Blob& blob) {
    if (job_.size() > kLongestName) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("job name '{}' has {} characters: use at most {}", who_.job, who_.job.size(),
                              kLongestName - (job_.size() - who_.job.size())));
    }
    gifts_ = {to_hex(blob), ""};
    auto all = meet();
    leave();
    return all;
  }

 private:
  static constexpr std::array kTags = {"blob", "confirm"};

  Expected<std::vector<Blob>> meet() {
    for (;;) {
      const auto met = advance();
      if (!met) return tl::unexpected(met.error());
      if (*met) return decoded();
      if (!patience_.nap([this] { return awaited(); })) return late();
    }
  }

  // As far as it goes without waiting; true at the end. Fails only where trying again is of no use.
  Expected<bool> advance() {
    if (!key_ && !join()) return false;
    while (stage_ < kTags.size()) {
      auto given = give();
      if (!given || !*given) return given;
      if (!take()) return false;
      ++stage_;
      given_ = false;
      patience_.again();
    }
    return true;
  }

  bool join() {
    const auto reply = client_.join(job_, token_, who_.size, who_.rank, 0, 0, {}, false);
    if (!reply) return later(reply.error());
    key_ = reply->key;
    stage_ = 0;
    given_ = false;
    heard_ = Clock::now();
    return true;
  }

  Expected<bool> give() {
    if (given_) return true;
    const auto given = client_.give(job_, *key_, who_.rank, kTags[stage_], gifts_[stage_]);
    given_ = given.has_value();
    if (given_) return true;
    // Refused while the membership stands: the blob itself is the problem.
    if (!unasked(given.error()) && client_.look(job_, *key_, who_.rank)) {
      return tl::unexpected(given.error());
    }
    return lost(given.error());
  }

  bool take() {
    auto blobs = client_.take(job_, *key_, kTags[stage_]);
    if (!blobs) return lost(blobs.error());
    problem_.reset();
    missing_ = std::move(blobs->missing);
    if (!missing_.empty()) {
      keep_alive();
      return false;
    }
    if (stage_ == 0) all_ = std::move(blobs->all);
    return true;
  }

  // The lease must not end while others are late; and if one of theirs has, everyone begins again.
  void keep_alive() {
    if (Clock::now() - heard_ < kHeartbeat) return;
    const auto state = client_.look(job_, *key_, who_.rank);
    if (!state) {
      lost(state.error());
    } else if (state->phase == JobState::Phase::ended) {
      leave();
      later({ErrorCode::epoch_ended, fmt::format("job '{}' has ended: {}", job_, state->reason), {}});
    } else {
      heard_ = Clock::now();
    }
  }

  // A refusal means that the controller does not know this member any more, because it restarted, say.
  bool lost(const Error& error) {
    if (!unasked(error)) key_.reset();
    return later(error);
  }

  bool later(Error error) {
    problem_ = std::move(error);
    return false;
  }

  void leave() {
    // Also when the time is over, but not for long then.
    const ControllerClient client(client_.address(), {.timeout = kSecond});
    if (key_) static_cast<void>(client.leave(job_, *key_, who_.rank));
    key_.reset();
  }

  std::string awaited() const {
    if (problem_) return fmt::format("the meeting of all ranks: {}", problem_->message);
    if (missing_.empty()) return fmt::format("the controller at {}", client_.address());
    return fmt::format("rank {} to come to the controller at {}", list(missing_), client_.address());
  }

  tl::unexpected<Error> late() const {
    if (!problem_) return too_late(who_, "controller " + client_.address(), missing_);
    return fail(problem_->code,
                fmt::format("{} (tried for {:.1f} s)", problem_->message, seconds(who_.timeout)), missing_);
  }

  Expected<std::vector<Blob>> decoded() const {
    std::vector<Blob> blobs;
    for (const std::string& text : all_) {
      if (auto blob = parse_hex(text)) blobs.push_back(std::move(*blob));
    }
    if (blobs.size() == who_.size) return blobs;
    return fail(ErrorCode::unreachable,
                fmt::format("{} does not answer like a PASSING controller", client_.address()));
  }

  Rendezvous who_;
  ControllerClient client_;
  std::string token_;
  std::string job_;
  Patience patience_;
  std::array<std::string, kTags.size()> gifts_;
  std::optional<std::uint64_t> key_;  // while a member
  std::size_t stage_ = 0;             // of kTags
  bool given_ = false;                // in this stage
  Clock::time_point heard_;           // by the controller
  std::vector<std::string> all_;
  std::vector<std::uint16_t> missing_;
  std::optional<Error> problem_;  // why the last step failed, if it did
};

}  // namespace

Exchange controller_exchange(const Rendezvous& who, const std::string& controller, const std::string& token) {
  return [=](const Blob& blob) { return ControllerMeeting(who, controller, token).run(blob); };
}

}  // namespace passing::net
