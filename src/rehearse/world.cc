#include "rehearse/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rehearse/inputs.h"
#include "rehearse/reference.h"
#include "rehearse/world_parts.h"

namespace passing::rehearse {
namespace {

constexpr std::uint32_t kSwitchPort = 0;
constexpr std::uint64_t kMaxEvents = 20'000'000;
constexpr std::size_t kMaxPacket = wire::packet_bytes(PASSING_MAX_ELEMENTS);

std::uint32_t port_of(unsigned job, std::uint16_t member, std::uint32_t lane) {
  return 1 + (job * PASSING_MAX_MEMBERS + member) * PASSING_MAX_LANES + lane;
}

Address switch_address(std::uint32_t lane) {
  Address address;
  address.ip.fill(0xFE);
  address.port = static_cast<std::uint16_t>(9000 + lane);
  return address;
}

Address member_address(unsigned job, std::uint16_t member, std::uint32_t lane) {
  Address address;
  address.ip[0] = static_cast<std::uint8_t>(job + 1);
  address.ip[15] = static_cast<std::uint8_t>(member);
  address.port = static_cast<std::uint16_t>(5000 + lane);
  return address;
}

std::string member_name(unsigned job, std::uint16_t member) {
  return fmt::format("job{}.member{}", job, member);
}

// A switch whose payload is big-endian, made of one whose payload is little-endian.
void swap_payload(std::byte* packet, std::size_t size, wire::Type type) {
  if (size < PASSING_HEADER_BYTES ||
      std::to_integer<std::uint8_t>(packet[3]) != static_cast<std::uint8_t>(type))
    return;
  for (std::size_t i = PASSING_HEADER_BYTES; i + 4 <= size; i += 4) {
    std::reverse(packet + i, packet + i + 4);
  }
}

}  // namespace

World::World(const Scenario& scenario, TraceSink trace)
    : scenario_(scenario),
      trace_(std::move(trace)),
      random_(scenario.seed ^ 0x5EED),
      network_(scenario.network, scenario.seed ^ 0x11E7),
      aggregator_({.elements = static_cast<std::uint16_t>(scenario.elements),
                   .slots = scenario.lanes * scenario.slots * (scenario.jobs_in_turn ? 1 : scenario.jobs)}) {
  for (unsigned id = 0; id < scenario.jobs; ++id) {
    auto job = std::make_unique<Job>();
    job->id = id;
    job->key = random_.next();
    job->members.resize(scenario.members);
    for (std::size_t op = 0; op < scenario.operations.size(); ++op) {
      std::vector<std::vector<std::byte>> inputs;
      for (std::uint16_t m = 0; m < scenario.members; ++m) {
        inputs.push_back(make_input(scenario.operations[op], scenario.seed * 64 + id * 32 + op, m));
        job->members[m].inputs.push_back(inputs.back());
      }
      job->expected.push_back(exact_result(scenario.operations[op], scenario.block_elements,
                                           std::max<std::uint32_t>(scenario.tree_members, scenario.members),
                                           inputs));
    }
    for (std::uint16_t m = 0; m < scenario.members; ++m) {
      Member& member = job->members[m];
      member.id = m;
      member.steps = scenario.operations;
      if (m != scenario.culprit) continue;
      switch (scenario.fault) {
        case Fault::leaves_early: member.steps.resize(scenario.fault_operation); break;
        case Fault::never_comes:
          member.steps.resize(scenario.fault_operation);
          member.leaves = false;
          break;
        case Fault::disagreement: {
          OperationPlan& odd = member.steps[scenario.fault_operation];
          if (random_.chance(0.5)) {
            ++odd.elements;
          } else {
            odd.reduction = odd.reduction == numeric::Reduction::sum ? numeric::Reduction::average
                                                                     : numeric::Reduction::sum;
          }
          member.inputs[scenario.fault_operation] = make_input(odd, scenario.seed, m);
          break;
        }
        default: break;
      }
    }
    jobs_.push_back(std::move(job));
  }
}

World::~World() = default;

Outcome World::run(const std::function<void(double)>& progress) {
  for (auto& job : jobs_) {
    if (job->id == 0 || !scenario_.jobs_in_turn) install(*job);
  }
  if (scenario_.fault == Fault::restart || scenario_.fault == Fault::presumed_dead)
    schedule(scenario_.fault_time, What::crash, 0, scenario_.culprit);
  if (scenario_.fault == Fault::switch_lost) schedule(scenario_.fault_time, What::lose_switch, 0, 0);

  std::uint64_t count = 0;
  while (outcome_.problem.empty() && !finished()) {
    if (++count > kMaxEvents) problem("did not end: too many events");
    if (progress && count % 20'000 == 0) {
      std::size_t done = 0;
      std::size_t all = 0;
      for (const auto& job : jobs_) {
        for (const Member& member : job->members) {
          done += member.ended;
          all += member.steps_to_end();
        }
      }
      progress(static_cast<double>(done) / static_cast<double>(all));
    }
    const bool event_first = !events_.empty() && (network_.empty() || events_.top().at <= network_.next_at());
    if (event_first) {
      const Event event = events_.top();
      events_.pop();
      now_ = std::max(now_, event.at);
      happen(event);
    } else if (!network_.empty()) {
      Delivery delivery = network_.take();
      now_ = std::max(now_, delivery.at);
      deliver(std::move(delivery));
    } else {
      problem("did not end: nothing left to happen");
    }
  }
  check_end();
  outcome_.ended = now_;
  outcome_.counters = aggregator_.counters();
  return outcome_;
}

void World::schedule(Time at, What what, unsigned job, std::uint16_t member) {
  events_.push({at, serial_++, what, job, member});
}

// The controller's part: install the job, then tell the members at different times.
void World::install(Job& job) {
  dataplane::JobSpec spec{.job = job.id + 7,
                          .epoch = job.epoch,
                          .key = job.key,
                          .members = scenario_.members,
                          .lanes = static_cast<std::uint8_t>(scenario_.lanes),
                          .slots = scenario_.slots,
                          .first_sequence = scenario_.first_sequence,
                          .addresses = {}};
  for (std::uint16_t m = 0; m < scenario_.members; ++m) {
    for (std::uint32_t l = 0; l < scenario_.lanes; ++l) {
      spec.addresses.push_back(member_address(job.id, m, l));
    }
  }
  const auto installed = aggregator_.jobs().install(std::move(spec));
  if (!installed) return problem("install failed: " + installed.error().message);
  job.installed = true;
  for (Member& member : job.members) {
    schedule(now_ + random_.between(0, scenario_.skew), What::start, job.id, member.id);
  }
}

void World::start(Job& job, Member& member) {
  if (member.started || member.departed) return;  // the epoch it was called for is over
  if (member.zombie) return;                      // it starts when it has heard
  endpoint::Config config{.job = job.id + 7,
                          .epoch = job.epoch,
                          .key = job.key,
                          .member = member.id,
                          .members = scenario_.members,
                          .tree_members = scenario_.tree_members,
                          .lanes = scenario_.lanes,
                          .slots = scenario_.slots,
                          .elements = scenario_.elements,
                          .block_elements = scenario_.block_elements,
                          .lookahead = scenario_.lookahead,
                          .first_sequence = scenario_.first_sequence,
                          .order = scenario_.order,
                          .switch_addresses = {},
                          .names = {}};
  for (std::uint32_t l = 0; l < scenario_.lanes; ++l) {
    config.switch_addresses.push_back(switch_address(l));
  }
  auto created = endpoint::Endpoint::create(config);
  if (!created) return problem("create failed: " + created.error().message);
  member.endpoint = std::move(*created);
  member.started = true;
  member.epoch = job.epoch;
  member.submitted = 0;
  member.completed = 0;
  member.ended = 0;
  member.outputs = member.inputs;
  member.submit_at.clear();
  for (std::size_t step = 0; step < member.steps_to_end(); ++step) {
    // Often at once with the one before: several operations in flight.
    const Time before = member.submit_at.empty() ? now_ : member.submit_at.back();
    member.submit_at.push_back(before + (random_.chance(0.5) ? 0 : random_.between(0, scenario_.skew)));
    if (step < member.steps.size() && !member.steps[step].in_place) {
      std::fill(member.outputs[step].begin(), member.outputs[step].end(), std::byte{0xEE});
    }
  }
  pump(job, member);
}

void World::happen(const Event& event) {
  Job& job = *jobs_[event.job];
  Member& member = job.members[event.member];
  switch (event.what) {
    case What::start: start(job, member); break;
    case What::crash: crash(job); break;
    case What::hear_of_crash: hear_of_crash(job, member); break;
    case What::lose_switch:
      switch_lost_ = true;
      if (trace_) trace_(trace_event(now_, "the switch is lost"));
      break;
    case What::wake:
      if (event.at != member.wake_at) break;  // superseded
      member.wake_at = INT64_MAX;
      if (member.endpoint) pump(job, member);
      break;
  }
}

void World::deliver(Delivery delivery) {
  if (delivery.damaged) {
    ++outcome_.lost;
    return;
  }
  if (delivery.to == kSwitchPort) return deliver_to_switch(delivery);
  const std::uint32_t index = delivery.to - 1;
  const std::uint32_t lane = index % PASSING_MAX_LANES;
  Job& job = *jobs_[index / PASSING_MAX_LANES / PASSING_MAX_MEMBERS];
  Member& member = job.members[index / PASSING_MAX_LANES % PASSING_MAX_MEMBERS];
  if (!member.endpoint) return;
  if (now_ < member.stalled_until) return network_.postpone(std::move(delivery), member.stalled_until);
  if (random_.chance(scenario_.stall)) {
    member.stalled_until = now_ + random_.between(0, 100 * kMillisecond);
    if (trace_) trace_(trace_event(now_, member_name(job.id, member.id) + " stalls"));
  }
  member.endpoint->receive(now_, lane, delivery.from, delivery.bytes);
  pump(job, member);
}

void World::deliver_to_switch(const Delivery& delivery) {
  if (switch_lost_) return;
  std::byte out[kMaxPacket];
  std::vector<std::byte> in = delivery.bytes;
  const bool big = scenario_.order == endpoint::PayloadOrder::big;
  if (big) swap_payload(in.data(), in.size(), wire::Type::contribution);
  const auto verdict = aggregator_.handle(delivery.from, in, out);
  if (verdict.send == dataplane::Verdict::Send::nothing) return;
  if (big) swap_payload(out, verdict.bytes, wire::Type::result);
  wire::Header header;
  wire::parse({out, verdict.bytes}, wire::Direction::to_member, PASSING_MAX_ELEMENTS, header);
  const unsigned job = header.job - 7;
  for (std::uint16_t m = 0; m < scenario_.members; ++m) {
    if (verdict.send == dataplane::Verdict::Send::sender && m != header.member) continue;
    transmit(port_of(job, m, header.lane), switch_address(header.lane), job, m, out, verdict.bytes);
  }
}

void World::transmit(std::uint32_t to, const Address& from, unsigned job, std::uint16_t member,
                     const std::byte* bytes, std::size_t size) {
  const Fate fate = network_.send(now_, to, from, bytes, size);
  if (fate == Fate::lost) ++outcome_.lost;
  if (!trace_) return;
  const std::string name = member_name(job, member);
  trace_(to == kSwitchPort ? trace_packet(now_, name, "switch", bytes, size, fate)
                           : trace_packet(now_, "switch", name, bytes, size, fate));
}

void World::crash(Job& job) {
  Member& culprit = job.members[scenario_.culprit];
  if (!culprit.endpoint || culprit.ended == culprit.steps_to_end()) return;  // too late or too early
  if (trace_) trace_(trace_event(now_, member_name(job.id, culprit.id) + " crashes"));
  job.crashed = true;
  // The controller declares it dead; the others hear of it one by one.
  if (scenario_.fault == Fault::presumed_dead) {
    culprit.zombie = true;
    depart(job, culprit);
  } else {
    culprit.endpoint.reset();
    culprit.ended = culprit.steps_to_end();
  }
  for (Member& member : job.members) {
    schedule(now_ + random_.between(0, 10 * kMillisecond), What::hear_of_crash, job.id, member.id);
  }
}

void World::hear_of_crash(Job& job, Member& member) {
  const bool late = job.epoch != 1;  // everyone else has departed, and a new epoch has begun
  if (late && !member.zombie) return;
  if (member.endpoint) {
    member.endpoint->end_epoch(
        {ErrorCode::epoch_ended, fmt::format("member {} restarted", scenario_.culprit), {scenario_.culprit}});
    take_completions(job, member);
    // Operations it never got to submit fail the same way.
    while (member.submitted < member.steps_to_end()) {
      record(job, member, member.submitted++,
             fail(ErrorCode::epoch_ended, "the epoch has ended", {scenario_.culprit}));
    }
  }
  member.endpoint.reset();
  member.zombie = false;
  if (late) {
    member.started = member.departed = false;
    return start(job, member);
  }
  depart(job, member);
  const bool all =
      std::all_of(job.members.begin(), job.members.end(), [](const Member& m) { return m.departed; });
  if (!all) return;
  ++job.epoch;
  for (Member& each : job.members) {
    each.started = false;
    each.ended = 0;
    each.departed = false;
  }
  if (trace_) trace_(trace_event(now_, fmt::format("epoch {} begins", job.epoch)));
  install(job);
}

// Everything a member's process does when it gets to run.
void World::pump(Job& job, Member& member) {
  if (now_ < member.stalled_until) {
    if (member.wake_at > member.stalled_until) {
      member.wake_at = member.stalled_until;
      schedule(member.wake_at, What::wake, job.id, member.id);
    }
    return;
  }
  submit_due(job, member);
  std::byte out[kMaxPacket];
  for (std::uint32_t lane = 0; lane < scenario_.lanes; ++lane) {
    while (const std::size_t size = member.endpoint->next_packet(now_, lane, out)) {
      transmit(kSwitchPort, member_address(job.id, member.id, lane), job.id, member.id, out, size);
    }
  }
  take_completions(job, member);
  if (member.departed) return;
  auto next = member.endpoint->next_timer();
  if (member.submitted < member.steps_to_end()) {
    const Time submit = member.submit_at[member.submitted];
    next = next ? std::min(*next, submit) : submit;
  }
  if (next && *next < member.wake_at) {
    member.wake_at = std::max(*next, now_ + 1);
    schedule(member.wake_at, What::wake, job.id, member.id);
  }
}

void World::submit_due(Job& job, Member& member) {
  while (member.submitted < member.steps_to_end() && member.submit_at[member.submitted] <= now_) {
    const std::size_t step = member.submitted++;
    const Time deadline = now_ + (scenario_.fault == Fault::deadlines ? random_.between(1, 900) * kMillisecond
                                                                      : scenario_.timeout);
    Expected<std::uint64_t> number;
    if (step == member.steps.size()) {
      number = member.endpoint->leave(deadline);
    } else {
      const OperationPlan& plan = member.steps[step];
      number = member.endpoint->submit(
          {.type = plan.type,
           .reduction = plan.reduction,
           .elements = plan.elements,
           .divisor = plan.divisor,
           .input = plan.in_place ? member.outputs[step].data() : member.inputs[step].data(),
           .output = member.outputs[step].data(),
           .deadline = deadline});
    }
    if (!number) {
      record(job, member, step, tl::unexpected(number.error()));
    }
  }
}

void World::take_completions(Job& job, Member& member) {
  while (auto completion = member.endpoint->next_completion()) {
    if (completion->number != member.completed++) {
      return problem(
          fmt::format("member {}: operation {} completed out of order", member.id, completion->number));
    }
    record(job, member, completion->number, completion->outcome);
  }
}

void World::record(Job& job, Member& member, std::size_t step, const Expected<void>& outcome) {
  if (trace_) {
    trace_(trace_event(now_, fmt::format("{} operation {}: {}", member_name(job.id, member.id), step,
                                         outcome ? "done" : outcome.error().message)));
  }
  ++member.ended;
  ++(outcome ? outcome_.operations : outcome_.failures);
  check_outcome(job, member, step, outcome);
  if (member.ended == member.steps_to_end() && member.leaves && !job.crashed) depart(job, member);
}

void World::depart(Job& job, Member& member) {
  if (member.departed) return;
  member.departed = true;
  if (member.endpoint) {
    for (std::uint32_t l = 0; l < scenario_.lanes; ++l) {
      const auto& counters = member.endpoint->lane(l).counters();
      outcome_.chunks += counters.chunks;
      outcome_.retransmissions += counters.retransmissions;
      outcome_.timeouts += counters.timeouts;
    }
  }
  aggregator_.jobs().depart(job.id + 7, job.epoch, member.id);
  // A member that waited for the slots of this job gets them now.
  if (aggregator_.jobs().find(job.id + 7) == nullptr && scenario_.jobs_in_turn && job.id == 0) {
    install(*jobs_[1]);
  }
}

bool World::finished() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
    return job->installed && std::all_of(job->members.begin(), job->members.end(), [](const Member& m) {
             return m.started && !m.zombie && m.ended == m.steps_to_end() && (m.endpoint || m.departed);
           });
  });
}

void World::problem(const std::string& text) {
  if (outcome_.problem.empty()) outcome_.problem = text;
}

}  // namespace passing::rehearse
