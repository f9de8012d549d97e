#include "communicator/witness.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "net/member.h"

namespace passing {
namespace {

// Until every neighbour knows of a failure.
constexpr Duration kAllKnow = 500 * kMillisecond;
// A judge comes to a decision within this time.
constexpr Duration kDecision = 2 * kSecond;

}  // namespace

Witness::Witness(Group& group)
    : group_(group),
      judge_({.rank = group.config.rank,
              .size = group.config.size,
              .names = group.names,
              .describe = [this](std::uint64_t number) { return describe(number); },
              .waiting_for =
                  [this] {
                    return questions_.waiting_for ? questions_.waiting_for() : std::vector<std::uint16_t>();
                  }}) {}

std::string Witness::describe(std::uint64_t number) const {
  if (number < Group::kFoundingSteps)
    return number == 0 ? "sharing memory" : "joining the switch or its servers";
  number -= Group::kFoundingSteps;
  return questions_.describe ? questions_.describe(number) : fmt::format("operation {}", number);
}

void Witness::called(const strategy::Call& call) {
  ledger_.call({call.signature, call.describe_counts()});
  judge_.called(Group::kFoundingSteps + ledger_.called());
  compare_calls();
}

void Witness::announce() {
  if (ledger_.unannounced() == 0) return;
  for (LedgerCall& call : ledger_.take_unannounced()) {
    group_.control->tell((group_.config.rank + 1) % group_.config.size,
                         {.type = ControlMessage::Type::announce,
                          .number = call.times,
                          .signature = call.signature,
                          .counts = std::move(call.counts)});
  }
}

void Witness::leave() {
  judge_.leave(net::monotonic_now());
  heed();
}

void Witness::founding_step(std::uint64_t step, Time deadline) {
  judge_.called(step);
  judge_.turn({step - 1, net::monotonic_now(), deadline, 0});
}

void Witness::founded() {
  judge_.called(Group::kFoundingSteps);
  judge_.idle();
}

void Witness::tell_ready(std::uint64_t step, std::uint32_t round) {
  const std::uint64_t distance = std::uint64_t{1} << round;
  if (distance >= group_.config.size) return;
  group_.control->tell(static_cast<std::uint32_t>((group_.config.rank + distance) % group_.config.size),
                       {.type = ControlMessage::Type::ready, .number = step << 8 | round});
}

void Witness::problem(Error error, bool certain) {
  judge_.problem(net::monotonic_now(), std::move(error), certain);
}

void Witness::hear_control() {
  Control& control = *group_.control;
  while (const auto heard = control.next()) on_control(heard->from, heard->message);
  if (const auto& fault = control.fault())
    fail({fault->code, fmt::format("{}: {}", group_.own_name(), fault->message), {group_.own_id()}});
  for (const net::LostPeer& lost : control.take_lost())
    judge_.lost(net::monotonic_now(), lost.rank, lost.reason, judge::Judge::Link::control);
  note_gone();
  heed();
}

void Witness::on_control(std::uint32_t from, const ControlMessage& message) {
  switch (message.type) {
    case ControlMessage::Type::announce:
      ledger_.announced_by_left({message.signature, message.counts, message.number});
      compare_calls();
      break;
    case ControlMessage::Type::news: judge_.hear(net::monotonic_now(), from, message.text); break;
    case ControlMessage::Type::ready:
      if (message.number >> 8 > 0 && message.number >> 8 < ready_.size())
        ready_[message.number >> 8] |= std::uint64_t{1} << (message.number & 63);
      break;
    case ControlMessage::Type::leave: break;
  }
}

void Witness::compare_calls() {
  const auto difference = ledger_.compare();
  if (!difference) return;
  const std::uint32_t left = (group_.config.rank + group_.config.size - 1) % group_.config.size;
  fail({ErrorCode::disagreement,
        fmt::format("operation {}: {} called {}{}, {} called {}{}", difference->number, group_.names[left],
                    difference->theirs.signature.describe(), difference->theirs.counts, group_.own_name(),
                    difference->mine.signature.describe(), difference->mine.counts),
        {Group::id(left), group_.own_id()}});
}

void Witness::hear_data() {
  while (auto came = group_.carrier->take(strategy::tags::kControl, strategy::tags::kClassMask)) {
    const auto message = ControlMessage::decode(came->data);
    const std::uint32_t from = strategy::tags::source(came->tag);
    if (!message || from >= group_.config.size || message->type != ControlMessage::Type::leave) continue;
    left(from);
  }
  note_lost();
  note_gone();
  heed();
}

void Witness::left(std::uint32_t rank) {
  group_.left[rank] = true;
  if (questions_.on_left) questions_.on_left(rank);
}

// The word that a rank leaves waits behind all that it has sent, and goes with it if nobody takes that. But
// its record says the same.
void Witness::note_gone() {
  std::erase_if(gone_, [this](std::uint32_t rank) {
    if (!group_.left[rank] && !judge_.has_left(rank)) return false;
    if (!group_.left[rank]) left(rank);
    return true;
  });
}

void Witness::note_lost() {
  // What this process was refused explains what it has lost.
  if (const auto& fault = group_.carrier->fault())
    fail({fault->code, fmt::format("{}: {}", group_.own_name(), fault->message), {group_.own_id()}});
  for (const net::LostPeer& lost : group_.carrier->take_lost()) {
    if (lost.rank >= group_.config.size) {
      problem({ErrorCode::peer_lost, fmt::format("{} is lost: {}", group_.names[lost.rank], lost.reason), {}},
              false);
    } else if (!group_.left[lost.rank]) {
      judge_.lost(net::monotonic_now(), lost.rank, lost.reason, judge::Judge::Link::data);
      gone_.push_back(lost.rank);
    }
  }
}

void Witness::step(Time now) {
  if (now < judge_.next_timer()) return;
  if (group_.control) {
    group_.control->progress();
    hear_control();
  }
  judge_.step(net::monotonic_now());
}

void Witness::heed() {
  while (auto message = judge_.next_message())
    group_.control->tell(message->to, {.type = ControlMessage::Type::news, .text = std::move(message->data)});
  if (const auto& decision = judge_.decision()) set_failure(decision->error);
}

void Witness::settle(Duration limit, const std::function<bool()>& done) {
  Control& control = *group_.control;
  const Time end = net::monotonic_now() + limit;
  for (;;) {
    control.progress();
    hear_control();
    if (group_.carrier) {
      group_.carrier->progress();
      hear_data();
    }
    if (done() || net::monotonic_now() >= end) return;
    // What that has sent goes out now, and may have been all there was to wait for.
    control.flush();
    const bool nothing_came = !group_.carrier || group_.carrier->arm();
    if (done()) return;
    if (!nothing_came) continue;
    // Now and then `done` says what is waited for.
    const Time until = std::min(end, judge_.next_timer());
    const Duration rest = std::clamp<Duration>(until - net::monotonic_now(), kMillisecond, kSecond);
    pollfd sources[] = {{control.descriptor(), POLLIN, 0},
                        {group_.carrier ? group_.carrier->descriptor() : -1, POLLIN, 0}};
    const timespec left{rest / kSecond, rest % kSecond};
    ppoll(sources, 2, &left, nullptr);
    step(net::monotonic_now());
    heed();
  }
}

void Witness::await_decision() {
  const auto decided = [this] {
    judge_.step(net::monotonic_now());
    heed();
    return failure_.has_value();
  };
  if (group_.control) {
    settle(kDecision, decided);
  } else {
    static_cast<void>(decided());
  }
}

void Witness::await_all_know() {
  if (group_.control) settle(kAllKnow, [this] { return judge_.all_know() && group_.control->all_sent(); });
}

}  // namespace passing
