#include "dataplane/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "wire/wire.h"

namespace passing::dataplane {
namespace {

Expected<void> validate(const JobSpec& spec) {
  const auto refuse = [](const char* setting, std::uint64_t value, const char* range) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is {}: must be {}", setting, value, range));
  };
  if (spec.members < 1 || spec.members > PASSING_MAX_MEMBERS) {
    return refuse("members", spec.members, "1 to 64");
  }
  if (spec.lanes < 1 || spec.lanes > PASSING_MAX_LANES) return refuse("lanes", spec.lanes, "1 to 64");
  if (!std::has_single_bit(spec.slots) || spec.slots > PASSING_MAX_SLOTS) {
    return refuse("slots", spec.slots, "a power of two from 1 to 32768");
  }
  if (spec.first_sequence % (2 * spec.slots) != 0) {
    return refuse("first_sequence", spec.first_sequence, "a multiple of twice the slots");
  }
  if (spec.addresses.size() != std::size_t{spec.members} * spec.lanes) {
    return refuse("addresses", spec.addresses.size(), "members x lanes in number");
  }
  return {};
}

}  // namespace

Expected<const Job*> JobTable::install(JobSpec spec) {
  if (auto valid = validate(spec); !valid) return tl::unexpected(valid.error());
  if (const Job* old = find(spec.job); old != nullptr) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("job {} still has members in epoch {}: end that epoch first", spec.job, old->spec.epoch));
  }
  const std::uint32_t slots = capabilities_.lanes_of(spec.lanes) * spec.slots;
  auto job = std::make_unique<Job>();
  jobs_.reserve(jobs_.size() + 1);  // nothing may fail once the slots are taken
  const auto first = slots_.take(slots);
  if (!first) {
    return fail(ErrorCode::no_capacity,
                slots > slots_.free()
                    ? fmt::format("the job asks for {} slots, of {} free", slots, slots_.free())
                    : fmt::format("the job asks for {} slots in a row: {} are free, at most {} in a row",
                                  slots, slots_.free(), slots_.longest()));
  }
  job->installation = ++installations_;
  job->first_slot = *first;
  job->slot_count = slots;
  job->everyone = ~std::uint64_t{0} >> (64 - spec.members);
  job->spec = std::move(spec);
  assert_disjoint(*job);
  jobs_.push_back(std::move(job));
  return jobs_.back().get();
}

// Two jobs in one slot would spoil each other's sums in silence, or stop each other for ever.
void JobTable::assert_disjoint(const Job& added) const {
  PASSING_ASSERT(added.slot_count <= capabilities_.slots &&
                 added.first_slot <= capabilities_.slots - added.slot_count);
  if (added.slot_count == 0) return;
  for (const auto& other : jobs_) {
    PASSING_ASSERT(other->slot_count == 0 || other->first_slot + other->slot_count <= added.first_slot ||
                   added.first_slot + added.slot_count <= other->first_slot);
  }
}

void JobTable::depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) {
  const auto position = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& candidate) {
    return candidate->spec.job == job && candidate->spec.epoch == epoch;
  });
  if (position == jobs_.end() || member >= (*position)->spec.members) return;
  Job& found = **position;
  found.departed |= std::uint64_t{1} << member;
  if (found.departed != found.everyone) return;
  last_ = nullptr;
  slots_.give_back(found.first_slot, found.slot_count);
  jobs_.erase(position);
}

const Job* JobTable::find_slowly(std::uint32_t job) const {
  for (const auto& candidate : jobs_) {
    if (candidate->spec.job == job) return last_ = candidate.get();
  }
  return nullptr;
}

}  // namespace passing::dataplane
