// A simulated datagram network: deterministic, driven by a seed and a virtual clock.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/address.h"
#include "base/time.h"
#include "rehearse/random.h"
#include "rehearse/scenario.h"

namespace passing::rehearse {

/// A packet on its way. `to` is a port of the world's choice.
struct Delivery {
  Time at = 0;
  std::uint64_t serial = 0;  ///< breaks ties, so that runs repeat exactly
  std::uint32_t to = 0;
  Address from;
  /// Bits were flipped on the way. The checksum of UDP finds that, and what it does not find the
  /// protocol cannot find either (docs/protocol.md section 2).
  bool damaged = false;
  std::vector<std::byte> bytes;
};

/// What became of a packet that was sent: for traces.
enum class Fate : std::uint8_t { sent, lost, duplicated, corrupted, truncated, forged, late };
const char* to_string(Fate fate);

/// Loses, duplicates, delays, damages and forges packets as the plan says.
class Network {
 public:
  Network(const NetworkPlan& plan, std::uint64_t seed) : plan_(plan), random_(seed) {}

  /// Sends; returns what happened to it. The queue grows by 0 to 3 deliveries.
  Fate send(Time now, std::uint32_t to, const Address& from, const std::byte* bytes, std::size_t size);

  bool empty() const { return queue_.empty(); }
  Time next_at() const { return queue_.top().at; }
  Delivery take();
  /// Puts back what the receiver could not look at yet.
  void postpone(Delivery delivery, Time until);

 private:
  struct Later {
    bool operator()(const Delivery& a, const Delivery& b) const {
      return a.at != b.at ? a.at > b.at : a.serial > b.serial;
    }
  };

  Time arrival(Time now);
  void push(Delivery delivery);
  void forge(Delivery& delivery);

  NetworkPlan plan_;
  Random random_;
  std::priority_queue<Delivery, std::vector<Delivery>, Later> queue_;
  std::uint64_t serial_ = 0;
};

}  // namespace passing::rehearse
