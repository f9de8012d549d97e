#include "judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "judge/neighbours.h"

namespace passing::judge {
namespace {

// In a message; all of them are in Error::members.
constexpr std::size_t kMostNamed = 8;
// Roll calls that one can have missed: more than this is nonsense.
constexpr std::uint64_t kMostRounds = std::uint64_t{1} << 32;

using Ranks = std::vector<std::uint16_t>;

Ranks both(const Ranks& a, const Ranks& b) {
  Ranks all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

bool contains(const Ranks& ranks, std::uint32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

Judge::Judge(Group group)
    : group_(std::move(group)), board_(group_.size, neighbours(group_.rank, group_.size).size()) {
  PASSING_ASSERT(group_.rank < group_.size && group_.names.size() >= group_.size);
  for (const std::uint32_t each : neighbours(group_.rank, group_.size)) neighbours_.push_back({.rank = each});
}

std::string Judge::names_of(const Ranks& ranks) const {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") +
            (ranks[i] < group_.names.size() ? group_.names[ranks[i]] : fmt::format("peer {}", ranks[i]));
  }
  if (ranks.size() > kMostNamed) text += fmt::format(" and {} more", ranks.size() - kMostNamed);
  return text;
}

// Of a neighbour; or as many as there are.
std::size_t Judge::index_of(std::uint32_t rank) const {
  const auto found = std::ranges::find(neighbours_, rank, &Neighbour::rank);
  return static_cast<std::size_t>(found - neighbours_.begin());
}

bool Judge::can_reach(std::uint32_t rank) const {
  return !unreachable_.contains(static_cast<std::uint16_t>(rank)) && !board_.of(rank).left;
}

// --- Records and roll calls: section 3.

void Judge::open_round(Time now) {
  ++round_;
  renew_record();
  send_records(now);
}

void Judge::renew_record() {
  Record own{.version = board_.of(group_.rank).version + 1,
             .round = round_,
             .called = called_,
             .left = leaving_,
             .turn = std::nullopt,
             .waits = {},
             .lost = {}};
  if (turn_) {
    own.turn = turn_->number;
    own.waits = group_.waiting_for();
    own.waits.resize(std::min(own.waits.size(), Record::kMostWaits));
  }
  for (const auto& [rank, reason] : lost_) {
    if (own.lost.size() < Record::kMostLost) own.lost.push_back(rank);
  }
  said_idle_ = !turn_;
  board_.publish(static_cast<std::uint16_t>(group_.rank), std::move(own));
}

void Judge::send_records(Time now) {
  for (std::size_t i = 0; i < neighbours_.size(); ++i) {
    Neighbour& to = neighbours_[i];
    if (!board_.has_news_for(i) || now < to.paced + kPace) continue;
    to.paced = now;
    while (board_.has_news_for(i)) {
      const News news{.round = round_, .entries = board_.take_news_for(i), .proposal = std::nullopt};
      if (can_reach(to.rank)) outbox_.push_back({to.rank, news.encode()});
    }
  }
}

void Judge::hear(Time now, std::uint32_t from, const std::string& data) {
  const std::size_t index = index_of(from);
  auto news = News::decode(data);
  if (index == neighbours_.size() || !news || news->round > round_ + kMostRounds) return;
  if (news->proposal) {
    for (const std::uint16_t each : news->proposal->error.members) {
      if (each >= group_.size) return;
    }
    on_proposal(now, index, std::move(*news->proposal));
  }
  if (decision_) return;  // it knows what has been decided, or will hear of it
  for (const News::Entry& each : news->entries) {
    // Nobody else knows better what this rank does.
    if (each.rank >= group_.size || each.rank == group_.rank) continue;
    board_.merge(each.rank, each.record, index);
    someone_left_ = someone_left_ || each.record.left;
  }
  if (news->round > round_) {
    round_ = news->round;
    renew_record();
  }
  send_records(now);
  check_left(now);
}

// --- What looks wrong: section 4.

void Judge::lost(Time now, std::uint32_t rank, const std::string& reason, Link link) {
  PASSING_ASSERT(rank < group_.size && rank != group_.rank);
  const auto id = static_cast<std::uint16_t>(rank);
  if (link == Link::control) unreachable_.insert(id);
  const bool first = lost_.emplace(id, reason).second;
  if (!first || decision_ || leaving_ || board_.of(rank).left) return;
  open_round(now);
  suspicions_.push_back(
      {held_until(now),
       round_,
       {ErrorCode::peer_lost, fmt::format("{} is lost: {}", group_.names[rank], reason), {id}},
       id});
}

void Judge::problem(Time now, Error error, bool certain) {
  if (decision_ || best_) return;
  if (certain) return propose(now, std::move(error));
  // At a deadline it is known already who is there.
  if (inquiry_ && inquiry_->judged && error.code != ErrorCode::disagreement) {
    suspicions_.push_back({now, inquiry_->round, std::move(error), std::nullopt});
    return;
  }
  open_round(now);
  suspicions_.push_back({held_until(now), round_, std::move(error), std::nullopt});
}

Time Judge::held_until(Time now) const {
  const Time due = now + kExplanation;
  return turn_ ? std::min(due, std::max(now, turn_->deadline + kHeldMost)) : due;
}

// Two ranks may open roll calls of the same number. Who has answered one of them may have died before the
// other. By now all that it said has come, so that the next number is new.
bool Judge::ask_again(Time now, Suspicion& suspicion) {
  const Time due = held_until(now);
  if (!suspicion.lost || suspicion.again || due < now + kExplanation ||
      !answered(*suspicion.lost, suspicion.round))
    return false;
  open_round(now);
  suspicion.again = true;
  suspicion.round = round_;
  suspicion.due = due;
  return true;
}

Error Judge::verdict(Time now, const Suspicion& suspicion) const {
  Error error = suspicion.error;
  if (!suspicion.lost) {
    if (error.code == ErrorCode::disagreement) return error;
    // Who has not called yet is late only after the deadline.
    const bool late = turn_ && now >= turn_->deadline;
    return (late ? who_is_missing(now, suspicion.round) : who_is_dead(suspicion.round)).value_or(error);
  }
  const std::uint16_t rank = *suspicion.lost;
  if (answered(rank, suspicion.round)) {
    error.message = fmt::format("the connection of {} and {} broke: {}", group_.names[group_.rank],
                                group_.names[rank], lost_.at(rank));
    error.members = both({static_cast<std::uint16_t>(group_.rank)}, {rank});
  } else if (const Ranks all = dead(suspicion.round); all.size() > 1) {
    error.message = fmt::format("{} are lost: {}", names_of(all), lost_.at(rank));
    error.members = all;
  }
  return error;
}

void Judge::check_suspicions(Time now) {
  for (Suspicion& each : suspicions_) {
    if (now < each.due) continue;
    if (each.lost && board_.of(*each.lost).left) continue;
    if (!ask_again(now, each)) return propose(now, verdict(now, each));
  }
  std::erase_if(suspicions_, [now](const Suspicion& each) { return now >= each.due; });
}

// --- Who is missing: section 5.

bool Judge::answered(std::uint32_t rank, std::uint64_t round) const {
  return board_.of(rank).version > 0 && board_.of(rank).round >= round;
}

Ranks Judge::dead(std::uint64_t round) const {
  std::set<std::uint16_t> all;
  for (const auto& [rank, reason] : lost_) all.insert(rank);
  for (std::uint32_t r = 0; r < group_.size; ++r)
    all.insert(board_.of(r).lost.begin(), board_.of(r).lost.end());
  Ranks dead;
  std::ranges::copy_if(all, std::back_inserter(dead), [&](std::uint16_t each) {
    return each < group_.size && each != group_.rank && !answered(each, round) && !board_.of(each).left;
  });
  return dead;
}

Ranks Judge::absent(std::uint64_t round, std::uint64_t number) const {
  Ranks absent;
  for (std::uint32_t r = 0; r < group_.size; ++r) {
    const Record& record = board_.of(r);
    if (r != group_.rank && answered(r, round) && !record.left && !record.turn && record.called <= number)
      absent.push_back(static_cast<std::uint16_t>(r));
  }
  return absent;
}

Ranks Judge::silent(std::uint64_t round, std::uint64_t number) const {
  Ranks silent;
  for (std::uint32_t r = 0; r < group_.size; ++r) {
    const Record& record = board_.of(r);
    if (r != group_.rank && !answered(r, round) && !record.left && record.called <= number)
      silent.push_back(static_cast<std::uint16_t>(r));
  }
  return silent;
}

std::uint64_t Judge::lowest_turn(std::uint64_t round) const {
  std::uint64_t lowest = turn_ ? turn_->number : UINT64_MAX;
  for (std::uint32_t r = 0; r < group_.size; ++r) {
    if (answered(r, round)) lowest = std::min(lowest, board_.of(r).turn.value_or(UINT64_MAX));
  }
  return lowest;
}

std::optional<Error> Judge::who_is_dead(std::uint64_t round) const {
  Ranks who = dead(round);
  if (who.empty()) return std::nullopt;
  const std::string text = fmt::format("{} {} lost", names_of(who), who.size() == 1 ? "is" : "are");
  return Error{ErrorCode::peer_lost, text, std::move(who)};
}

std::optional<Error> Judge::who_is_missing(Time now, std::uint64_t round) const {
  if (auto lost = who_is_dead(round)) return lost;
  const std::uint64_t lowest = lowest_turn(round);
  if (lowest == UINT64_MAX) return std::nullopt;
  for (const std::uint64_t number : {lowest, turn_ ? turn_->number : lowest}) {
    const Ranks not_there = absent(round, number);
    const Ranks quiet = silent(round, number);
    if (!not_there.empty() || !quiet.empty()) {
      const char* why = quiet.empty()       ? "not calling it"
                        : not_there.empty() ? "not answering"
                                            : "not calling it, or not answering";
      return late(now, both(not_there, quiet), why);
    }
    if (Ranks all = silent(round, UINT64_MAX); !all.empty())
      return late(now, std::move(all), "not answering");
  }
  return std::nullopt;
}

// Everyone is in the middle of it: whoever is waited for, and waits for nobody himself.
Ranks Judge::stuck() const {
  Ranks own = group_.waiting_for();
  // One that waits for neighbours of its host knows less than those.
  for (std::uint32_t r = 0; own.empty() && r < group_.size; ++r) own = board_.of(r).waits;
  std::set<std::uint16_t> seen(own.begin(), own.end());
  std::deque<std::uint16_t> next(own.begin(), own.end());
  std::set<std::uint16_t> ends;
  while (!next.empty()) {
    const std::uint16_t rank = next.front();
    next.pop_front();
    const bool server = rank >= group_.size;
    if (server || board_.of(rank).waits.empty()) ends.insert(rank);
    if (server) continue;
    for (const std::uint16_t each : board_.of(rank).waits) {
      if (seen.insert(each).second) next.push_back(each);
    }
  }
  if (ends.empty()) ends.insert(own.begin(), own.end());
  ends.erase(static_cast<std::uint16_t>(group_.rank));
  return {ends.begin(), ends.end()};
}

Error Judge::late(Time now, Ranks who, const char* why) const {
  const std::string what = turn_ ? group_.describe(turn_->number) + ": " : "";
  const double since = turn_ ? static_cast<double>(now - turn_->since) / kSecond : 0;
  const std::string whom = who.empty() ? "" : " for " + names_of(who);
  return {ErrorCode::deadline, fmt::format("{}waiting{} ({}) since {:.1f} s", what, whom, why, since),
          std::move(who)};
}

// When the roll call of the oldest operation begins.
Time Judge::opening() const {
  return turn_->deadline - std::min(kAnswer, (turn_->deadline - turn_->since) / 2);
}

void Judge::check_deadline(Time now) {
  if (!turn_ || now < opening()) return;
  if (!inquiry_) {
    open_round(now);
    inquiry_ = Inquiry{turn_->number, round_, std::max(turn_->deadline, now + kAnswer)};
  }
  if (now < inquiry_->due) return;
  if (auto error = who_is_missing(now, inquiry_->round)) return propose(now, std::move(*error));
  // Everyone is in the middle of it. Someone else may find out more, or is about to.
  Time due = turn_->deadline + turn_->patience;
  for (const Suspicion& each : suspicions_) due = std::max(due, each.due);
  inquiry_->judged = true;
  if (now < due) {
    inquiry_->due = due;
  } else {
    propose(now, late(now, stuck(), "in the middle of it"));
  }
}

// --- Leaving: section 7.

void Judge::leave(Time now) {
  leaving_ = true;
  idle();
  renew_record();
  for (Neighbour& each : neighbours_) each.paced = INT64_MIN;
  send_records(now);
}

Ranks Judge::left_before(std::uint64_t number) const {
  Ranks gone;
  for (std::uint32_t r = 0; r < group_.size; ++r) {
    if (board_.of(r).left && board_.of(r).called <= number) gone.push_back(static_cast<std::uint16_t>(r));
  }
  return gone;
}

void Judge::check_left(Time now) {
  if (!turn_ || best_ || leaving_ || !someone_left_) return;
  const Ranks gone = left_before(turn_->number);
  if (gone.empty()) return;
  propose(now, {ErrorCode::peer_lost,
                fmt::format("{}: {} left before it", group_.describe(turn_->number), names_of(gone)), gone});
}

// --- Proposals and the decision: section 6.

void Judge::propose(Time now, Error error) {
  if (best_ || decision_) return;
  // Servers are named in the message, but are no ranks.
  std::erase_if(error.members, [this](std::uint16_t each) { return each >= group_.size; });
  // As it will be sent, or nobody could confirm it.
  error.message.resize(std::min(error.message.size(), Proposal::kMostText));
  error.members.resize(std::min(error.members.size(), Proposal::kMostMembers));
  on_proposal(now, neighbours_.size(), {static_cast<std::uint16_t>(group_.rank), std::move(error)});
}

void Judge::on_proposal(Time now, std::size_t from, Proposal proposal) {
  if (from < neighbours_.size()) neighbours_[from].told = true;
  if (decision_) return;
  if (best_ && !proposal.better_than(*best_)) {
    if (proposal == *best_ && from < neighbours_.size()) neighbours_[from].confirmed = true;
    return;
  }
  if (!best_) proposed_ = now;
  best_ = std::move(proposal);
  for (std::size_t i = 0; i < neighbours_.size(); ++i) {
    neighbours_[i].confirmed = i == from;
    const News news{.round = round_, .entries = {}, .proposal = best_};
    if (can_reach(neighbours_[i].rank)) outbox_.push_back({neighbours_[i].rank, news.encode()});
  }
}

// Neighbours whose word is missing. Those that are named may have none.
Ranks Judge::unconfirmed() const {
  Ranks who;
  for (const Neighbour& each : neighbours_) {
    if (!each.confirmed && can_reach(each.rank) && !contains(best_->error.members, each.rank))
      who.push_back(static_cast<std::uint16_t>(each.rank));
  }
  return who;
}

// Long before the deadline there is more time for neighbours whose word is late.
Time Judge::settled() const {
  if (neighbours_.empty()) return proposed_;
  if (unconfirmed().empty()) return proposed_ + kSettle;
  const Time patient = std::min(proposed_ + kSettlePatient, due_);
  return std::max(proposed_ + kSettleMost,
                  turn_ ? std::min(patient, turn_->deadline + kSettleMost) : patient);
}

void Judge::check_settled(Time now) {
  if (now < settled()) return;
  const Ranks missing = unconfirmed();
  decision_ = Decision{.way = Decision::Way::fail, .error = best_->error};
  if (!missing.empty()) decision_->error.message += fmt::format(" (not confirmed by {})", names_of(missing));
}

bool Judge::all_know() const {
  return std::ranges::all_of(neighbours_, [this](const Neighbour& each) {
    return each.told || !can_reach(each.rank) || (decision_ && contains(decision_->error.members, each.rank));
  });
}

// --- Time.

void Judge::step(Time now) {
  if (decision_) return;
  send_records(now);
  if (!best_ && !leaving_) {
    check_left(now);
    check_suspicions(now);
    check_deadline(now);
  }
  if (best_) check_settled(now);
}

Time Judge::next_timer() const {
  if (decision_) return INT64_MAX;
  Time next = INT64_MAX;
  for (std::size_t i = 0; i < neighbours_.size(); ++i) {
    if (board_.has_news_for(i)) next = std::min(next, neighbours_[i].paced + kPace);
  }
  if (best_) return std::min(next, settled());
  if (leaving_) return next;
  for (const Suspicion& each : suspicions_) next = std::min(next, each.due);
  if (!turn_) return next;
  if (someone_left_ && !left_before(turn_->number).empty()) return 0;
  return std::min(next, inquiry_ ? inquiry_->due : opening());
}

std::optional<Message> Judge::next_message() {
  if (outbox_.empty()) return std::nullopt;
  Message message = std::move(outbox_.front());
  outbox_.pop_front();
  return message;
}

}  // namespace passing::judge
