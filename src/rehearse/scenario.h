// What a rehearsal does: a job, a network and at most one thing that goes wrong, from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "endpoint/config.h"
#include "numeric/types.h"

namespace passing::rehearse {

/// Values to sum: see inputs.cc.
enum class Pattern : std::uint8_t { gradients, magnitudes, raw_bits, zeros, denormals, huge, sprinkled };

struct OperationPlan {
  numeric::DataType type = numeric::DataType::float32;
  numeric::Reduction reduction = numeric::Reduction::sum;
  std::uint64_t elements = 0;
  std::uint32_t divisor = 1;
  Pattern pattern = Pattern::gradients;
  bool in_place = false;
};

/// What the network does to each packet, in each direction.
struct NetworkPlan {
  double loss = 0;
  double duplication = 0;
  double corruption = 0;  ///< a damaged packet fails the checksum at the receiver
  double truncation = 0;
  double forgery = 0;     ///< a copy with one field falsified is delivered too
  double straggling = 0;  ///< of packets that arrive much later than others
  Duration delay = 20 * kMicrosecond;
  Duration jitter = 0;
  Duration straggle = 0;
};

enum class Fault : std::uint8_t {
  none,
  disagreement,   ///< one member submits another operation than the rest
  leaves_early,   ///< one member leaves before the rest is done
  never_comes,    ///< one member stops submitting
  restart,        ///< one member crashes and comes back in a new epoch
  presumed_dead,  ///< one member is declared dead though it lives, and hears of it late
  deadlines,      ///< members have short deadlines of their own, which may pass at any moment
  switch_lost,    ///< the switch stops answering
};

struct Scenario {
  std::uint64_t seed = 0;
  std::uint16_t members = 2;
  std::uint32_t tree_members = 0;
  std::uint32_t lanes = 1;
  std::uint32_t slots = 16;
  std::uint32_t elements = 32;
  std::uint32_t block_elements = PASSING_BLOCK_ELEMENTS;
  std::int64_t lookahead = -1;
  std::uint32_t first_sequence = 0;
  endpoint::PayloadOrder order = endpoint::PayloadOrder::little;

  std::vector<OperationPlan> operations;
  Duration skew = 0;  ///< between members' submissions of one operation
  double stall = 0;   ///< chance per event that a member pauses
  Duration timeout = 3600 * kSecond;
  NetworkPlan network;

  Fault fault = Fault::none;
  std::uint16_t culprit = 0;  ///< the member at fault
  std::size_t fault_operation = 0;
  Duration fault_time = 0;  ///< of a restart or the loss of the switch

  unsigned jobs = 1;          ///< 2: another job on the same switch
  bool jobs_in_turn = false;  ///< the second on the slots that the first has left

  /// Everything from the seed.
  static Scenario from_seed(std::uint64_t seed);
  /// One line.
  std::string describe() const;
};

const char* to_string(Fault fault);

}  // namespace passing::rehearse
