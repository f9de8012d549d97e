// What a seed does: docs/faults.md section 8.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "judge/neighbours.h"
#include "judge/world.h"

namespace passing::judge {
namespace {

// In the order of their weights.
struct Weight {
  Fault fault;
  std::uint64_t weight;
};
constexpr Weight kWeights[] = {
    {Fault::none, 6},    {Fault::kill, 14},       {Fault::kill_host, 8},   {Fault::kill_neighbours, 8},
    {Fault::stop, 10},   {Fault::pause, 8},       {Fault::partition, 10},  {Fault::healing, 8},
    {Fault::absent, 10}, {Fault::late, 6},        {Fault::cancel, 4},      {Fault::refused, 4},
    {Fault::leave, 8},   {Fault::broken_link, 4}, {Fault::switch_down, 6}, {Fault::stuck, 8},
    {Fault::differ, 6},
};

Fault pick_fault(rehearse::Random& random) {
  std::uint64_t all = 0;
  for (const Weight& each : kWeights) all += each.weight;
  std::uint64_t at = random.below(all);
  for (const Weight& each : kWeights) {
    if (at < each.weight) return each.fault;
    at -= each.weight;
  }
  return Fault::none;
}

// The switch has trouble of its own, or because of what happens to ranks.
void add_trouble(Scenario& s, rehearse::Random& random) {
  switch (s.fault) {
    case Fault::kill:
    case Fault::kill_host:
    case Fault::kill_neighbours:
      // While everyone is in the middle of it, and patient.
      s.stalls = random.chance(0.15);
      if (s.stalls) s.at = s.timeout + random.between(0, 700 * kMillisecond);
      // Often it notices before the ranks do.
      if (random.chance(0.4))
        s.switch_at = s.at + random.between(0, (random.chance(0.6) ? 1 : 100) * kMillisecond);
      break;
    case Fault::stop:
    case Fault::absent:
      if (random.chance(0.4)) s.switch_at = s.at + random.between(0, s.timeout + 100 * kMillisecond);
      break;
    case Fault::switch_down: s.switch_at = s.at; break;
    case Fault::stuck: s.answers = random.chance(0.7); break;
    case Fault::differ: s.compared = random.chance(0.5); break;
    default: break;
  }
}

}  // namespace

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::none: return "none";
    case Fault::kill: return "kill";
    case Fault::kill_host: return "kill_host";
    case Fault::kill_neighbours: return "kill_neighbours";
    case Fault::stop: return "stop";
    case Fault::pause: return "pause";
    case Fault::partition: return "partition";
    case Fault::healing: return "healing";
    case Fault::absent: return "absent";
    case Fault::late: return "late";
    case Fault::cancel: return "cancel";
    case Fault::refused: return "refused";
    case Fault::leave: return "leave";
    case Fault::broken_link: return "broken_link";
    case Fault::switch_down: return "switch_down";
    case Fault::stuck: return "stuck";
    case Fault::differ: return "differ";
  }
  return "?";
}

Scenario Scenario::from_seed(std::uint64_t seed) {
  rehearse::Random random(seed);
  Scenario s;
  s.seed = seed;
  s.ranks = static_cast<std::uint32_t>(random.chance(0.85) ? random.between(2, 12) : random.between(13, 64));
  s.operations = static_cast<std::uint32_t>(random.between(1, 4));
  constexpr Duration kTimeouts[] = {200 * kMillisecond, kSecond, 2 * kSecond, 5 * kSecond};
  s.timeout = random.pick(kTimeouts);
  constexpr double kLosses[] = {0, 0, 0.01, 0.05};
  s.loss = random.pick(kLosses);
  s.slow = random.chance(0.3) ? 0.3 : 0;
  s.fault = pick_fault(random);
  // Mostly while the operations run.
  s.at = random.between(0, random.chance(0.8) ? 30 * kMillisecond * s.operations : s.timeout);
  const auto some = [&](std::uint64_t most) {
    const std::uint64_t count = 1 + random.below(std::max<std::uint64_t>(most, 1));
    while (s.culprits.size() < std::min<std::uint64_t>(count, s.ranks - 1))
      s.culprits.insert(static_cast<std::uint32_t>(random.below(s.ranks)));
  };
  // As ranks of a host or a rack are.
  const auto side_by_side = [&](std::uint32_t most) {
    const auto first = random.below(s.ranks);
    for (std::int64_t i = 0, n = random.between(1, std::max(1U, most)); i < n; ++i)
      s.culprits.insert(static_cast<std::uint32_t>((first + i) % s.ranks));
  };
  switch (s.fault) {
    case Fault::none:
    case Fault::switch_down: break;
    case Fault::kill:
    case Fault::stop:
    case Fault::absent: some(random.chance(0.6) ? 1 : 3); break;
    case Fault::kill_host: side_by_side(s.ranks / 4); break;
    case Fault::kill_neighbours: {
      const auto around = static_cast<std::uint32_t>(random.below(s.ranks));
      const auto all = neighbours(around, s.ranks);
      for (std::size_t i = 0; i < std::max<std::size_t>(1, all.size() / 2); ++i)
        s.culprits.insert(all[random.below(all.size())]);
      break;
    }
    case Fault::pause:
    case Fault::healing:
      s.timeout = std::max(s.timeout, 2 * kSecond);
      s.at = random.between(0, s.timeout / 4);
      s.lasts = random.between(10 * kMillisecond, s.timeout / 4);
      some(s.fault == Fault::pause ? 3 : s.ranks / 2);
      break;
    case Fault::partition: side_by_side(s.ranks / 2); break;
    case Fault::late:
      some(2);
      s.lasts = random.between(s.timeout / 10, s.timeout / 3);
      break;
    case Fault::cancel:
    case Fault::refused:
    case Fault::stuck:
    case Fault::leave: some(1); break;
    case Fault::broken_link:
      s.loss = 0;  // with two ranks there is only one way, and a late answer is none
      while (s.culprits.size() < 2) s.culprits.insert(static_cast<std::uint32_t>(random.below(s.ranks)));
      break;
    case Fault::differ:
      while (s.culprits.size() < 2) s.culprits.insert(static_cast<std::uint32_t>(random.below(s.ranks)));
      break;
  }
  add_trouble(s, random);
  return s;
}

std::string Scenario::describe() const {
  return fmt::format(
      "seed {}: {} ranks, {} operations, timeout {} ms, loss {}, slow {}, {} of {} at {} ms for {} ms, "
      "switch at {} ms{}{}{}",
      seed, ranks, operations, timeout / kMillisecond, loss, slow, to_string(fault), culprits,
      at / kMillisecond, lasts / kMillisecond, switch_at ? *switch_at / kMillisecond : -1,
      answers ? ", answers" : "", compared ? ", compared" : "", stalls ? ", stalls" : "");
}

}  // namespace passing::judge
