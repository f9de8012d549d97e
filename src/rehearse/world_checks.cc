// What must come out of a scenario.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rehearse/world_parts.h"

namespace passing::rehearse {

// What an operation may come to, given the fault: the heart of the rehearsal.
void World::check_outcome(Job& job, Member& member, std::size_t step, const Expected<void>& outcome) {
  const auto complain = [&](const std::string& what) {
    problem(fmt::format("job {} member {} operation {}: {}", job.id, member.id, step, what));
  };
  const bool is_leave = step == member.steps.size();
  // With the switch in reach and one epoch, an operation ends alike on all members.
  const bool uniform =
      !job.crashed && scenario_.fault != Fault::switch_lost && scenario_.fault != Fault::leaves_early;
  if (job.outcomes.size() <= step) job.outcomes.resize(step + 1);
  job.outcomes[step] |= outcome ? 1 : 2;
  if (uniform && job.outcomes[step] == 3) return complain("succeeded on one member and failed on another");
  const bool after_fault = step >= scenario_.fault_operation;
  if (outcome) {
    const bool must_fail =
        after_fault && (scenario_.fault == Fault::disagreement || scenario_.fault == Fault::leaves_early ||
                        scenario_.fault == Fault::never_comes);
    if (must_fail) return complain("succeeded, though members did not agree");
    if (is_leave) return;
    const auto& expected = job.expected[step];
    const auto& got = member.outputs[step];
    if (got == expected) return;
    const std::size_t width = numeric::size_of(member.steps[step].type);
    std::size_t i = 0;
    while (std::memcmp(&got[i * width], &expected[i * width], width) == 0) ++i;
    std::uint32_t got_bits = 0;
    std::uint32_t expected_bits = 0;
    std::memcpy(&got_bits, &got[i * width], width);
    std::memcpy(&expected_bits, &expected[i * width], width);
    return complain(fmt::format("element {} of {} ({}) is {:x}, must be {:x}", i, member.steps[step].elements,
                                numeric::to_string(member.steps[step].type), got_bits, expected_bits));
  }
  const Error& error = outcome.error();
  const auto names_culprit =
      std::find(error.members.begin(), error.members.end(), scenario_.culprit) != error.members.end();
  switch (scenario_.fault) {
    case Fault::none: return complain("failed: " + error.message);
    case Fault::disagreement:
    case Fault::leaves_early:
      if (!after_fault) return complain("failed too early: " + error.message);
      if (error.code != ErrorCode::disagreement || error.members.size() != 2 || !names_culprit ||
          error.members[0] == error.members[1]) {
        return complain("does not name both sides: " + error.message);
      }
      return;
    case Fault::never_comes:
      if (!after_fault) return complain("failed too early: " + error.message);
      if (error.code != ErrorCode::deadline || error.members.size() != 1 || !names_culprit) {
        return complain("does not name the missing member: " + error.message);
      }
      return;
    case Fault::deadlines:
      if (error.code != ErrorCode::deadline || error.members.empty()) {
        return complain("failed: " + error.message);
      }
      return;
    case Fault::restart:
    case Fault::presumed_dead:
      if (error.code != ErrorCode::epoch_ended || member.epoch > 1) {
        return complain("failed: " + error.message);
      }
      return;
    case Fault::switch_lost:
      if (error.code != ErrorCode::unreachable) return complain("failed: " + error.message);
      return;
  }
}

void World::check_end() {
  if (!outcome_.problem.empty()) return;
  for (auto& job : jobs_) {
    for (Member& member : job->members) {
      if (member.endpoint && !member.endpoint->idle()) {
        problem(fmt::format("member {} still has operations", member.id));
      }
      depart(*job, member);  // the ones that were declared dead
    }
  }
  if (aggregator_.jobs().free_slots() != aggregator_.capabilities().slots) {
    problem(fmt::format("{} slots were not freed",
                        aggregator_.capabilities().slots - aggregator_.jobs().free_slots()));
  }
}

}  // namespace passing::rehearse
