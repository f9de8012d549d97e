#include "rehearse/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "rehearse/random.h"

namespace passing::rehearse {
namespace {

using numeric::DataType;
using numeric::Reduction;

void pick_geometry(Scenario& s, Random& random) {
  const std::uint64_t size = random.below(100);
  s.members = static_cast<std::uint16_t>(size < 60   ? random.between(1, 4)
                                         : size < 85 ? random.between(5, 8)
                                                     : random.between(9, 33));
  if (random.chance(0.2)) s.tree_members = static_cast<std::uint32_t>(random.between(s.members, 1023));
  s.lanes = static_cast<std::uint32_t>(random.chance(0.5) ? 1 : random.between(2, 4));
  s.slots = random.pick({1U, 1U, 2U, 4U, 4U, 8U, 16U, 64U, 256U});
  if (random.chance(0.15)) {
    s.elements = random.pick({32U, 64U, 352U, 704U, 2112U});
    s.block_elements = PASSING_BLOCK_ELEMENTS;
  } else {
    s.elements = random.pick({1U, 2U, 3U, 4U, 7U, 16U});
    s.block_elements = s.elements * random.pick({1U, 2U, 3U, 6U});
  }
  s.lookahead = random.chance(0.4) ? -1 : random.between(0, 5);
  // One in four starts just before the sequence numbers wrap.
  if (random.chance(0.25))
    s.first_sequence = -(2 * s.slots * static_cast<std::uint32_t>(random.between(1, 3)));
  if (random.chance(0.2)) s.order = endpoint::PayloadOrder::big;
}

std::uint64_t pick_elements(const Scenario& s, Random& random) {
  const std::uint64_t e = s.elements;
  const std::uint64_t b = s.block_elements;
  // Enough for several laps of the slots, few enough for ten thousand runs.
  const std::uint64_t packets = std::max<std::uint64_t>(4, 800 / s.members);
  switch (random.below(9)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return e - 1;
    case 3: return e;
    case 4: return e + 1;
    case 5: return b - 1 + random.below(3);
    default: return random.below(std::min(packets * e, 40'000 / s.members + 2 * b));
  }
}

void pick_operations(Scenario& s, Random& random) {
  const std::size_t count = 1 + random.below(6);
  for (std::size_t i = 0; i < count; ++i) {
    s.operations.push_back({.type = random.pick({DataType::float32, DataType::float32, DataType::float32,
                                                 DataType::float16, DataType::bfloat16, DataType::int32}),
                            .reduction = random.pick({Reduction::sum, Reduction::average}),
                            .elements = pick_elements(s, random),
                            .divisor = static_cast<std::uint32_t>(random.between(1, 4 * s.members)),
                            .pattern = static_cast<Pattern>(random.below(7)),
                            .in_place = random.chance(0.5)});
  }
  s.skew = random.chance(0.3) ? 0 : random.between(0, 5 * kMillisecond);
}

void pick_network(Scenario& s, Random& random) {
  NetworkPlan& net = s.network;
  net.delay = random.between(1, 200) * kMicrosecond;
  if (random.chance(0.2)) return;  // a quiet network
  const auto some = [&](double share, double most) {
    return random.chance(share) ? most * static_cast<double>(random.below(1000)) / 1000 : 0.0;
  };
  net.loss = some(0.7, 0.3);
  net.duplication = some(0.5, 0.3);
  net.corruption = some(0.3, 0.1);
  net.truncation = some(0.3, 0.1);
  net.forgery = some(0.3, 0.2);
  net.jitter = random.chance(0.6) ? random.between(0, 4) * net.delay : 0;
  net.straggling = some(0.4, 0.1);
  net.straggle = random.between(1, 50) * kMillisecond;
  s.stall = some(0.2, 0.002);
}

void pick_fault(Scenario& s, Random& random) {
  if (random.chance(0.6)) return;
  s.fault = random.pick({Fault::disagreement, Fault::leaves_early, Fault::never_comes, Fault::restart,
                         Fault::presumed_dead, Fault::deadlines, Fault::switch_lost});
  // Alone, nobody can disagree or be missed.
  if (s.members == 1 && s.fault != Fault::switch_lost) s.fault = Fault::restart;
  // Under heavy loss an abort may stay unanswered for the whole grace period: then outcomes may differ.
  if (s.fault == Fault::deadlines) s.network.loss = std::min(s.network.loss, 0.05);
  s.culprit = static_cast<std::uint16_t>(random.below(s.members));
  s.fault_operation = random.below(s.operations.size());
  s.fault_time = random.between(0, 20 * kMillisecond);
  // A deadline long enough for everyone else to come; then the missing are exactly the culprit.
  if (s.fault == Fault::never_comes) s.network.loss = std::min(s.network.loss, 0.1);
  if (s.fault == Fault::never_comes) s.timeout = 300 * kSecond;
}

}  // namespace

Scenario Scenario::from_seed(std::uint64_t seed) {
  Random random(seed);
  Scenario s;
  s.seed = seed;
  pick_geometry(s, random);
  pick_operations(s, random);
  pick_network(s, random);
  pick_fault(s, random);
  if (s.fault == Fault::none && random.chance(0.3)) {
    s.jobs = 2;
    s.jobs_in_turn = random.chance(0.5);
  }
  return s;
}

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::none: return "none";
    case Fault::disagreement: return "disagreement";
    case Fault::leaves_early: return "leaves_early";
    case Fault::never_comes: return "never_comes";
    case Fault::restart: return "restart";
    case Fault::presumed_dead: return "presumed_dead";
    case Fault::deadlines: return "deadlines";
    case Fault::switch_lost: return "switch_lost";
  }
  return "?";
}

std::string Scenario::describe() const {
  return fmt::format(
      "seed {}: {} members, {} lanes, {} slots, {} elements per packet, {} per block, look-ahead {}, "
      "{} operations, loss {:.1f} %, fault {} (member {}, operation {}), {} jobs{}",
      seed, members, lanes, slots, elements, block_elements, lookahead, operations.size(), 100 * network.loss,
      to_string(fault), culprit, fault_operation, jobs, jobs == 2 && jobs_in_turn ? " in turn" : "");
}

}  // namespace passing::rehearse
