// What communicators tell each other beside the data: who calls what, who is where, who has failed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "strategy/call.h"
#include "strategy/plan.h"

namespace passing {

/// Over control connections, but for leave.
struct ControlMessage {
  enum class Type : std::uint8_t {
    announce = 1,  ///< to the right neighbour: the next `number` collectives I call have this signature
    news,          ///< to a neighbour: what a judge says to another (docs/faults.md)
    leave,         ///< on a connection for data: nothing more comes from me
    ready,  ///< at the beginning: those that I know of have all that they need; step and round in `number`
  };
  Type type = Type::announce;
  std::uint64_t number = 0;
  strategy::Signature signature;
  std::string counts;  ///< of the v-forms, in words
  std::string text;    ///< news

  std::string encode() const;
  static std::optional<ControlMessage> decode(const std::string& data);
};

/// What a rank gives at the rendezvous.
struct Introduction {
  std::string version;  ///< comes first in every version: leading_version()
  std::string trouble;  ///< why it cannot take part
  std::string strategy;
  std::string host;
  std::string address;  ///< of its carrier; over TCP: IP:PORT
  std::string control;  ///< of what judges talk over: IP:PORT
  std::string place;    ///< an inhost::Place
  std::string rack;
  std::string local_domain;
  std::string carrier;
  std::uint32_t process = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t lanes = 0;
  double link_rate = 0;  ///< Gbit/s; 0: it does not know
  double switch_rate = strategy::Plan{}.switch_rate;
  bool has_switch = false;

  std::string encode() const;
  static std::optional<Introduction> decode(const std::string& data);
  /// "rank 3 at 10.0.0.4:41233 (host gpu4, process 4711)".
  std::string name() const;
};

}  // namespace passing
