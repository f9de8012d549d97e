#include "judge/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "judge/neighbours.h"

namespace passing::judge {
namespace {

constexpr Time kEnd = 60 * kSecond;

std::string key_of(const Proposal& proposal) {
  return fmt::format("{} {} {} {}", proposal.proposer, static_cast<int>(proposal.error.code),
                     proposal.error.members, proposal.error.message);
}

}  // namespace

World::World(const Scenario& scenario) : scenario_(scenario), random_(scenario.seed * 7919 + 1) {
  const std::uint32_t size = scenario_.ranks;
  ranks_.resize(size);
  wakes_.assign(size, INT64_MAX);
  constexpr Shape kShapes[] = {Shape::all, Shape::ring, Shape::broadcast, Shape::network};
  for (std::uint32_t i = 0; i < scenario_.operations; ++i) shapes_.push_back(random_.pick(kShapes));
  if (scenario_.switch_at) shapes_.assign(scenario_.operations, Shape::network);
  if (scenario_.stalls) shapes_.back() = Shape::network;
  std::vector<std::string> names;
  for (std::uint32_t r = 0; r < size; ++r) names.push_back(fmt::format("rank {}", r));
  for (std::uint32_t r = 0; r < size; ++r) {
    ranks_[r].judge = std::make_unique<Judge>(Judge::Group{
        .rank = r,
        .size = size,
        .names = names,
        .describe = [](std::uint64_t number) { return fmt::format("operation {}", number); },
        .waiting_for =
            [this, r] {
              std::vector<std::uint16_t> waits;
              const std::uint64_t number = ranks_[r].ended;
              const std::vector<std::uint32_t> needed = needs(r, number);
              const auto add = [&](std::uint32_t who) { waits.push_back(static_cast<std::uint16_t>(who)); };
              if (shapes_[number] == Shape::ring) add((r + scenario_.ranks - 1) % scenario_.ranks);
              if (shapes_[number] == Shape::broadcast && !needed.empty()) add(needed.front());
              for (const std::uint32_t each : needed) {
                const bool stuck = scenario_.fault == Fault::stuck && scenario_.culprits.contains(each);
                if (shapes_[number] == Shape::all && (stuck || ranks_[each].called <= number)) add(each);
              }
              return waits;
            }});
  }
}

void World::at(Time when, std::function<void()> what) { events_.push({when, order_++, std::move(what)}); }

bool World::apart(std::uint32_t a, std::uint32_t b) const {
  return parted_ && scenario_.culprits.contains(a) != scenario_.culprits.contains(b);
}

// Whose contribution it needs. Of a broadcast: those on the way from the root, the nearest first.
std::vector<std::uint32_t> World::needs(std::uint32_t rank, std::uint64_t number) const {
  std::vector<std::uint32_t> all;
  if (shapes_[number] != Shape::broadcast) {
    for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
      if (r != rank) all.push_back(r);
    }
    return all;
  }
  const auto root = static_cast<std::uint32_t>(number % scenario_.ranks);
  std::uint32_t place = (rank + scenario_.ranks - root) % scenario_.ranks;
  while (place != 0) {
    place &= place - 1;
    all.push_back((place + root) % scenario_.ranks);
  }
  return all;
}

bool World::complete(std::uint32_t rank, std::uint64_t number) const {
  const bool network = shapes_[number] == Shape::network;
  const bool stuck = scenario_.fault == Fault::stuck && is_last(number);
  if (network && (switch_down_ || stuck || (scenario_.stalls && is_last(number)))) return false;
  const auto needed = needs(rank, number);
  return std::ranges::all_of(needed, [&](std::uint32_t each) {
    const Rank& other = ranks_[each];
    if (stuck && scenario_.culprits.contains(each)) return false;
    if (other.ended > number) return true;
    return other.called > number && !other.dead && !other.stopped && !other.decision && !apart(rank, each);
  });
}

void World::check_complete() {
  for (bool more = true; more;) {
    more = false;
    for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
      Rank& rank = ranks_[r];
      if (rank.dead || rank.stopped || rank.decision || rank.ended >= rank.called || !complete(r, rank.ended))
        continue;
      end(r, rank.ended);
      more = true;
    }
  }
}

void World::end(std::uint32_t rank, std::uint64_t number) {
  Rank& own = ranks_[rank];
  own.ended = number + 1;
  own.ended_at.push_back(now_);
  set_turn(rank);
  if (own.ended == own.called && own.leaving) return leave(rank);
  if (own.ended == own.called) schedule_calls(rank, own.called);
  pump(rank);
}

void World::leave(std::uint32_t rank) {
  Rank& own = ranks_[rank];
  if (own.decision || std::exchange(own.left, true)) return;
  own.judge->leave(now_);
  pump(rank);
  at(now_ + (random_.chance(0.5) ? 0 : random_.between(1, 200) * kMillisecond), [this, rank] {
    close_connections(rank, true, "it has closed the connection");
    close_connections(rank, false, "it has closed the connection");
  });
}

void World::set_turn(std::uint32_t rank) {
  Rank& own = ranks_[rank];
  own.judge->called(own.called);
  if (own.ended == own.called) return own.judge->idle();
  own.turn_since = now_;
  own.judge->turn({own.ended, now_, now_ + scenario_.timeout, patience(own.ended)});
  if (switch_down_) complain_of_switch(rank);
  if (scenario_.fault == Fault::stuck && scenario_.answers && is_last(own.ended)) ask_switch(rank);
}

void World::schedule_calls(std::uint32_t rank, std::uint64_t number) {
  if (number >= scenario_.operations) return;
  Duration pause = random_.between(0, std::min<Duration>(30 * kMillisecond, scenario_.timeout / 20));
  const bool culprit = scenario_.culprits.contains(rank);
  const bool last = number + 1 == scenario_.operations;
  if (culprit && last && scenario_.fault == Fault::absent) return;
  if (culprit && last && scenario_.fault == Fault::late) pause += scenario_.lasts;
  at(now_ + pause, [this, rank] { to(rank, [this, rank] { call(rank); }); });
}

void World::call(std::uint32_t rank) {
  Rank& own = ranks_[rank];
  if (own.decision || own.left) return;
  ++own.called;
  own.called_at.push_back(now_);
  if (own.called - own.ended == 1) set_turn(rank);
  own.judge->called(own.called);
  pump(rank);
  check_complete();
}

// What happens to a rank: not if it is dead, later if it is stopped.
void World::to(std::uint32_t rank, std::function<void()> what) {
  Rank& own = ranks_[rank];
  if (own.dead) return;
  if (own.stopped) {
    own.held.push_back(std::move(what));
    return;
  }
  what();
}

Duration World::delay(std::uint32_t from, std::uint32_t to) {
  auto [found, fresh] = base_.try_emplace(std::minmax(from, to));
  if (fresh)
    found->second = random_.chance(scenario_.slow) ? random_.between(20, 40) * kMillisecond
                                                   : random_.between(50, 2000) * kMicrosecond;
  Duration time = found->second;
  if (random_.chance(scenario_.loss)) {
    time += random_.between(200, 400) * kMillisecond;
    outcome_.probes.insert("a segment was lost");
  }
  return time;
}

// In order on each connection, also behind what was late; held while there is no way.
void World::send(std::uint32_t from, const Message& message) {
  note_proposal(from, message.to, message.data);
  const auto deliver = [this, from, message] {
    to(message.to, [this, from, message] {
      if (ranks_[message.to].decided_closed) return;
      ranks_[message.to].judge->hear(now_, from, message.data);
      pump(message.to);
    });
  };
  const auto connection = std::pair(from, message.to);
  if (apart(from, message.to)) {
    parted_mail_[connection].push_back(deliver);
    return;
  }
  Time& last = arrivals_[connection];
  last = std::max(last, now_ + delay(from, message.to));
  at(last, [this, connection, deliver] {
    if (apart(connection.first, connection.second)) {
      parted_mail_[connection].push_back(deliver);
    } else {
      deliver();
    }
  });
}

void World::note_proposal(std::uint32_t from, std::uint32_t to, const std::string& data) {
  // Those with records carry none, and are many.
  if (data[sizeof(News::round)] != 0 || data[sizeof(News::round) + 1] != 0) return;
  const auto news = News::decode(data);
  if (!news || !news->proposal) return;
  const std::string key = key_of(*news->proposal);
  auto [found, fresh] = proposals_.try_emplace(key);
  Proposed& proposed = found->second;
  if (fresh) {
    const Rank& own = ranks_[from];
    proposed.at = now_;
    proposed.proposer = from;
    proposed.idle = own.ended == own.called;
    proposed.number = own.ended;
    proposed.error = news->proposal->error;
    proposed.hops[from] = 0;
  }
  const std::uint32_t hops = proposed.hops.at(from) + 1;
  const auto [reached, first] = proposed.hops.try_emplace(to, hops);
  if (first) outcome_.most_hops = std::max(outcome_.most_hops, hops);
  if (++carried_[{from, to, key}] > 1 && outcome_.problem.empty())
    outcome_.problem = fmt::format("{} told {} twice: {}", from, to, key);
}

// A rank's connections break. Those for data go with the decision, those for control a while later.
void World::close_connections(std::uint32_t rank, bool control, const char* why) {
  const auto near = neighbours(rank, scenario_.ranks);
  for (std::uint32_t r = 0; r < scenario_.ranks; ++r) {
    if (r == rank) continue;
    const bool neighbour = std::ranges::binary_search(near, r);
    const bool carries =
        (r * 31 + rank * 17 + scenario_.seed) % 3 == 0 || (r + rank * 17 + scenario_.seed) % 5 == 0;
    if (control ? !neighbour : !carries) continue;
    Time& last = arrivals_[{rank, r}];
    last = std::max(last, now_ + delay(rank, r));
    at(last, [this, rank, r, why, control] {
      if (apart(rank, r)) return;
      to(r, [this, rank, r, why, control] {
        if (ranks_[r].decided_closed) return;
        ranks_[r].judge->lost(now_, rank, why, control ? Judge::Link::control : Judge::Link::data);
        pump(r);
      });
    });
  }
}

// Does what the caller of a judge does.
void World::pump(std::uint32_t rank) {
  Rank& own = ranks_[rank];
  while (auto message = own.judge->next_message()) send(rank, *message);
  if (own.judge->decision() && !own.decision) {
    own.decision = own.judge->decision();
    own.decided_at = now_;
    close_connections(rank, false, "it has closed the connection");
    at(now_ + 500 * kMillisecond, [this, rank] {
      if (!std::exchange(ranks_[rank].decided_closed, true) && !ranks_[rank].dead)
        close_connections(rank, true, "closed");
    });
  }
  if (own.decision && own.judge->all_know() && !std::exchange(own.decided_closed, true))
    close_connections(rank, true, "it has closed the connection");
  const Time next = std::max(own.judge->next_timer(), now_);
  if (own.judge->next_timer() == INT64_MAX || next >= wakes_[rank]) return;
  wakes_[rank] = next;
  at(next, [this, rank, next] {
    if (wakes_[rank] != next) return;
    wakes_[rank] = INT64_MAX;
    to(rank, [this, rank] {
      ranks_[rank].judge->step(now_);
      pump(rank);
    });
  });
}

void World::schedule_fault() {
  if (scenario_.switch_at)
    at(*scenario_.switch_at, [this] {
      switch_down_ = true;
      for (std::uint32_t r = 0; r < scenario_.ranks; ++r) complain_of_switch(r);
    });
  for (const std::uint32_t rank : scenario_.culprits) {
    // Not quite at the same time.
    const bool at_once = scenario_.fault == Fault::partition || scenario_.fault == Fault::healing ||
                         (scenario_.switch_at && rank == *scenario_.culprits.begin());
    const Time when = scenario_.at + (at_once ? 0 : random_.between(0, 100) * kMillisecond);
    strike(rank, when);
  }
}

void World::strike(std::uint32_t rank, Time when) {
  Rank& own = ranks_[rank];
  switch (scenario_.fault) {
    case Fault::kill:
    case Fault::kill_host:
    case Fault::kill_neighbours:
      at(when, [this, rank, &own] {
        if (own.decided_closed) return;
        own.dead = true;
        own.dead_at = now_;
        close_connections(rank, true, "Connection reset by peer");
        close_connections(rank, false, "Connection reset by peer");
      });
      break;
    case Fault::stop: at(when, [&own] { own.stopped = true; }); break;
    case Fault::pause:
      at(when, [&own] { own.stopped = true; });
      at(when + scenario_.lasts, [this, &own] {
        own.stopped = false;
        for (auto& each : std::exchange(own.held, {})) each();
        check_complete();
      });
      break;
    case Fault::partition:
    case Fault::healing:
      at(when, [this] { parted_ = true; });
      if (scenario_.fault == Fault::healing)
        at(when + scenario_.lasts, [this] {
          if (!std::exchange(parted_, false)) return;
          for (auto& [connection, mail] : std::exchange(parted_mail_, {})) {
            for (auto& each : mail) each();
          }
          check_complete();
        });
      break;
    case Fault::cancel:
    case Fault::refused:
      at(when, [this, rank, &own] {
        if (own.ended == own.called || own.decision) return;
        const bool cancel = scenario_.fault == Fault::cancel;
        own.judge->problem(now_,
                           {cancel ? ErrorCode::cancelled : ErrorCode::no_capacity,
                            "by itself",
                            {static_cast<std::uint16_t>(rank)}},
                           true);
        pump(rank);
      });
      break;
    case Fault::leave:
      at(when, [this, rank, &own] {
        own.leaving = true;
        if (own.ended == own.called) leave(rank);
      });
      break;
    case Fault::broken_link:
      at(when, [this, rank] {
        const auto& both = scenario_.culprits;
        const std::uint32_t other = *both.begin() == rank ? *both.rbegin() : *both.begin();
        ranks_[rank].judge->lost(now_, other, "Connection timed out", Judge::Link::data);
        pump(rank);
      });
      break;
    case Fault::differ:
      if (rank == *scenario_.culprits.begin()) at(when, [this] { see_difference(); });
      break;
    case Fault::none:
    case Fault::switch_down:
    case Fault::stuck:
    case Fault::absent:
    case Fault::late: break;
  }
}

Outcome World::run() {
  for (std::uint32_t r = 0; r < scenario_.ranks; ++r) schedule_calls(r, 0);
  schedule_fault();
  std::uint64_t steps = 0;
  while (!events_.empty() && events_.top().at < kEnd) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.what();
    if (++steps > 3'000'000) {
      outcome_.problem = "it does not come to an end";
      return outcome_;
    }
  }
  check(outcome_);
  return outcome_;
}

}  // namespace passing::judge
