// What a rank sees that is not certain, and what becomes of it: docs/faults.md section 4, and 5.7.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "judge/world.h"

namespace passing::judge {
namespace {

constexpr const char* kUnreachable = "the switch is unreachable";
constexpr const char* kMissing = "the switch waits for";
constexpr const char* kLength = "a message has another length";
constexpr const char* kCalls = "they called something else";
constexpr const char* kMiddle = "in the middle of it";
// How long a strategy lets the switch be asked.
constexpr Duration kPatience = 500 * kMillisecond;
// News that is not late has reached everyone.
constexpr Duration kNews = 150 * kMillisecond;

bool has(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

}  // namespace

Duration World::patience(std::uint64_t number) const {
  return shapes_[number] == Shape::network ? kPatience : 0;
}

void World::complain(std::uint32_t rank, Error error, bool certain) {
  Rank& own = ranks_[rank];
  if (!certain) own.complained_at = now_;
  own.judge->problem(now_, std::move(error), certain);
  pump(rank);
}

// Whoever is in an operation that needs it.
void World::complain_of_switch(std::uint32_t rank) {
  at(now_ + random_.between(0, 5 * kMillisecond), [this, rank] {
    to(rank, [this, rank] {
      const Rank& own = ranks_[rank];
      if (own.decision || own.left || own.complained_at || own.ended == own.called) return;
      if (shapes_[own.ended] == Shape::network)
        complain(rank, {ErrorCode::unreachable, kUnreachable, {}}, false);
    });
  });
}

// After the deadline. It answers before patience ends.
void World::ask_switch(std::uint32_t rank) {
  const std::uint64_t number = ranks_[rank].ended;
  if (shapes_[number] != Shape::network) return;
  const Duration answer = random_.between(50 * kMillisecond, 350 * kMillisecond);
  at(now_ + scenario_.timeout + answer, [this, rank, number] {
    const Rank& own = ranks_[rank];
    if (own.decision || own.ended != number) return;
    const auto culprit = static_cast<std::uint16_t>(*scenario_.culprits.begin());
    complain(rank, {ErrorCode::deadline, fmt::format("{} rank {}", kMissing, culprit), {culprit}}, false);
  });
}

void World::see_difference() {
  const std::uint32_t one = *scenario_.culprits.begin();
  const std::uint32_t other = *scenario_.culprits.rbegin();
  const std::vector<std::uint16_t> both{static_cast<std::uint16_t>(one), static_cast<std::uint16_t>(other)};
  if (ranks_[one].left) return;
  complain(one, {ErrorCode::disagreement, kLength, both}, false);
  if (!scenario_.compared) return;
  at(now_ + random_.between(0, 100) * kMillisecond, [this, other, both] {
    complain(other, {ErrorCode::disagreement, kCalls, both}, true);
  });
}

// When the roll call for the deadline of its oldest operation is judged: section 5.
Time World::judged_at(const Rank& rank) const {
  const Time deadline = rank.turn_since + scenario_.timeout;
  return std::max(deadline, deadline - std::min(kAnswer, scenario_.timeout / 2) + kAnswer);
}

// Section 4: what is not certain is held for 250 ms; not after the roll call for the deadline was judged.
std::string World::check_held() const {
  Time first = INT64_MAX;
  for (const auto& [key, proposed] : proposals_) {
    first = std::min(first, proposed.at);
    const Rank& own = ranks_[proposed.proposer];
    const std::string& text = proposed.error.message;
    const bool held = has(text, kUnreachable) || has(text, kMissing) || has(text, kLength);
    if (!held) continue;
    const bool judged = !has(text, kLength) && *own.complained_at >= judged_at(own);
    if (!judged && proposed.at < *own.complained_at + kExplanation)
      return fmt::format("it was not held: {}", key);
  }
  for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
    const Rank& own = ranks_[r];
    if (!own.complained_at || scenario_.fault != Fault::stuck) continue;
    if (*own.complained_at > judged_at(own) && first > *own.complained_at)
      return fmt::format("the word of {} was held after the deadline", r);
  }
  return "";
}

// Section 5, 7: whoever may find out more gets the time for it, and is then believed.
std::string World::check_patience() const {
  for (const auto& [key, proposed] : proposals_) {
    const Rank& own = ranks_[proposed.proposer];
    const Time deadline = own.turn_since + scenario_.timeout;
    if (has(proposed.error.message, kMiddle) && proposed.at < deadline + patience(proposed.number))
      return fmt::format("it was not patient: {}", key);
    if (scenario_.fault != Fault::stuck || scenario_.loss > 0) continue;
    const bool known = scenario_.answers || shapes_.back() != Shape::network;
    if (proposed.error.code != ErrorCode::deadline || proposed.error.members.size() != (known ? 1U : 0U))
      return fmt::format("not {} is named: {}", known ? "the one" : "nobody", key);
  }
  return "";
}

// Section 4: the dead are named instead of the switch, and after the deadline whoever is missing.
std::string World::check_named_instead() const {
  if (scenario_.loss > 0) return "";
  for (const auto& [key, proposed] : proposals_) {
    if (!has(proposed.error.message, kUnreachable)) continue;
    const Rank& own = ranks_[proposed.proposer];
    const bool late = proposed.at >= own.turn_since + scenario_.timeout;
    for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
      const Rank& other = ranks_[r];
      // Who died later may have answered.
      if (other.dead && other.dead_at <= std::min(*own.complained_at, proposed.at - kNews))
        return fmt::format("{} is dead, and not named: {}", r, key);
      const bool absent = scenario_.fault == Fault::absent && scenario_.culprits.contains(r);
      if (late && absent && is_last(proposed.number) && other.ended == other.called)
        return fmt::format("{} is missing, and not named: {}", r, key);
    }
  }
  return "";
}

// What is decided: a disagreement as it was seen, or better as it was compared.
std::string World::check_word() const {
  for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
    const auto& decision = ranks_[r].decision;
    if (!survivor(r) || scenario_.fault != Fault::differ) continue;
    if (!decision) return fmt::format("{} has not heard of the disagreement", r);
    const std::string& text = decision->error.message;
    const bool compared = has(text, kCalls);
    if (decision->error.code != ErrorCode::disagreement || (!compared && !has(text, kLength)))
      return fmt::format("{} has not heard of the disagreement: {}", r, text);
    if (scenario_.loss == 0 && compared != scenario_.compared)
      return fmt::format("the comparison knows more, but {} decided: {}", r, text);
  }
  return "";
}

void World::note_switch(Outcome& outcome) const {
  for (const auto& [key, proposed] : proposals_) {
    for (const char* word : {kUnreachable, kMissing, kLength, kCalls, kMiddle}) {
      if (has(proposed.error.message, word)) outcome.probes.insert(word);
    }
    const Rank& own = ranks_[proposed.proposer];
    if (has(proposed.error.message, kMiddle) && patience(proposed.number) > 0)
      outcome.probes.insert("patience has ended");
    if (has(proposed.error.message, kMissing) && *own.complained_at >= judged_at(own))
      outcome.probes.insert("not held after the deadline");
    if (!own.complained_at || has(proposed.error.message, kUnreachable)) continue;
    if (proposed.error.code == ErrorCode::peer_lost && proposed.at >= *own.complained_at + kExplanation)
      outcome.probes.insert("the dead instead of the switch");
    if (scenario_.switch_at && proposed.error.code == ErrorCode::deadline)
      outcome.probes.insert("the missing instead of the switch");
  }
}

}  // namespace passing::judge
