// What must hold at the end of a run: docs/faults.md section 8.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "judge/neighbours.h"
#include "judge/world.h"

namespace passing::judge {
namespace {

constexpr Duration kBound = kSecond;  // after a deadline

std::uint32_t log2_up(std::uint32_t size) { return static_cast<std::uint32_t>(std::bit_width(size - 1)); }

}  // namespace

bool World::survivor(std::uint32_t rank) const {
  const Rank& own = ranks_[rank];
  const bool stopped = (scenario_.fault == Fault::stop || scenario_.fault == Fault::pause) &&
                       scenario_.culprits.contains(rank);
  return !own.dead && !stopped && !own.left;
}

void World::check(Outcome& outcome) const {
  for (const auto& problem : {check_ends(), check_agreement(), check_innocence(), check_held(),
                              check_patience(), check_named_instead(), check_word()}) {
    if (outcome.problem.empty()) outcome.problem = problem;
  }
  // Section 1: of each proposal, over the way on which it came first.
  if (const std::uint32_t most = 2 * log2_up(scenario_.ranks);
      outcome.problem.empty() && outcome.most_hops > most)
    outcome.problem = fmt::format("a proposal took {} hops, not {}", outcome.most_hops, most);
  note_switch(outcome);
  if (proposals_.size() > 1) outcome.probes.insert("several proposals");
  for (const Rank& each : ranks_) {
    if (!each.decision) continue;
    const std::string& text = each.decision->error.message;
    for (const char* word :
         {"not confirmed", "left before it", "not answering", "not calling it", "are lost", "is lost"}) {
      if (text.find(word) != std::string::npos) outcome.probes.insert(word);
    }
  }
}

// Section 8, 1 and 5.
std::string World::check_ends() const {
  const bool harmless = scenario_.fault == Fault::none || scenario_.fault == Fault::healing ||
                        scenario_.fault == Fault::pause || scenario_.fault == Fault::late;
  // Nobody needs who has left after all that was called.
  const bool unneeded = scenario_.fault == Fault::leave && std::ranges::all_of(ranks_, [&](const Rank& each) {
                          return each.called <= ranks_[*scenario_.culprits.begin()].called;
                        });
  for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
    const Rank& own = ranks_[r];
    if (own.decision && (harmless || unneeded))
      return fmt::format("{} failed: {}", r, own.decision->error.message);
    if (!survivor(r)) continue;
    if (own.ended < own.called) {
      if (!own.decision) return fmt::format("operation {} of {} never ends", own.ended, r);
      const Time late = own.decided_at - own.turn_since - scenario_.timeout;
      if (late > kBound) return fmt::format("{} failed {} ms after the deadline", r, late / kMillisecond);
    }
    if (harmless && own.ended < scenario_.operations) return fmt::format("{} has not completed", r);
  }
  return "";
}

// Section 8, 2: who can talk to each other names the same ranks.
std::string World::check_agreement() const {
  std::vector<std::uint32_t> part(scenario_.ranks);
  for (std::uint32_t r = 0; r < scenario_.ranks; ++r) part[r] = r;
  const std::function<std::uint32_t(std::uint32_t)> find = [&](std::uint32_t r) {
    return part[r] == r ? r : part[r] = find(part[r]);
  };
  for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
    for (const std::uint32_t each : neighbours(r, scenario_.ranks)) {
      if (survivor(r) && survivor(each) && !apart(r, each)) part[find(r)] = find(each);
    }
  }
  std::map<std::uint32_t, std::uint32_t> first;
  for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
    if (!survivor(r)) continue;
    const std::uint32_t other = first.try_emplace(find(r), r).first->second;
    const auto& a = ranks_[other].decision;
    const auto& b = ranks_[r].decision;
    if (a.has_value() != b.has_value()) return fmt::format("{} and {}: one knows of a failure", other, r);
    if (a && a->error.members != b->error.members) {
      return fmt::format("{} names {}, {} names {}: {} / {}", other, a->error.members, r, b->error.members,
                         a->error.message, b->error.message);
    }
  }
  return "";
}

bool World::guilty(std::uint32_t rank, const Proposed& proposed) const {
  const Rank& own = ranks_[rank];
  if (own.left || (!survivor(rank))) return true;
  const bool culprit = scenario_.culprits.contains(rank);
  // Each side names the other, and nobody of its own.
  if (scenario_.fault == Fault::partition) {
    const bool among = scenario_.culprits.contains(proposed.proposer);
    const std::size_t side = among ? scenario_.culprits.size() : scenario_.ranks - scenario_.culprits.size();
    // Two ranks have one way only, and an answer on it may be later than a roll call waits.
    return culprit != among || (side == 2 && scenario_.loss > 0);
  }
  const bool by_itself = scenario_.fault == Fault::cancel || scenario_.fault == Fault::refused ||
                         scenario_.fault == Fault::broken_link || scenario_.fault == Fault::stuck ||
                         scenario_.fault == Fault::differ;
  if (by_itself && culprit) return true;
  // An answer may be late, and everyone has called: rule 5 of section 5.
  if (scenario_.fault == Fault::stuck && scenario_.loss > 0) return true;
  // What it did so shortly before, others may not know.
  const Duration slack = (scenario_.loss > 0 ? 500 : 150) * kMillisecond;
  std::uint64_t calls = 0;
  for (const Time each : own.called_at) calls += each <= proposed.at - slack ? 1 : 0;
  std::uint64_t ends = 0;
  for (const Time each : own.ended_at) ends += each <= proposed.at ? 1 : 0;
  return calls <= proposed.number && ends >= calls;
}

// Section 8, 3.
std::string World::check_innocence() const {
  for (const auto& [key, proposed] : proposals_) {
    bool someone = false;
    for (std::uint32_t r = 0; r < scenario_.ranks; ++r) someone = someone || guilty(r, proposed);
    if (scenario_.fault == Fault::broken_link && proposed.error.members.size() != 2)
      return fmt::format("not both ends are named: {}", key);
    if (scenario_.fault == Fault::partition && proposed.error.members.empty())
      return fmt::format("nobody of the other side is named: {}", key);
    for (const std::uint16_t each : proposed.error.members) {
      if (someone && !guilty(each, proposed)) return fmt::format("{} is named, and innocent: {}", each, key);
    }
  }
  return "";
}

}  // namespace passing::judge
