#include "inhost/host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "inhost/operation.h"

namespace passing::inhost {

std::string Call::describe() const {
  return fmt::format("{} of {} {}", to_string(reduction), count, to_string(type));
}

Expected<std::unique_ptr<Host>> Host::join(const Door& door, const Options& options) {
  const auto found = std::find(options.ranks.begin(), options.ranks.end(), options.rank);
  if (found == options.ranks.end() || options.ranks.size() > kMostRanks) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("rank {} is to be one of {} ranks of a host: it must be in the list, and the list "
                    "have at most {}",
                    options.rank, options.ranks.size(), kMostRanks));
  }
  auto settings = options.settings.for_ranks(options.ranks.size());
  if (!settings) return tl::unexpected(settings.error());

  std::unique_ptr<Host> host(new Host);
  host->ranks_ = options.ranks;
  host->names_ = options.names;
  if (host->names_.size() != host->ranks_.size()) {
    host->names_.clear();
    for (const std::uint32_t rank : host->ranks_) host->names_.push_back(fmt::format("rank {}", rank));
  }
  host->settings_ = *settings;
  host->me_ = static_cast<std::size_t>(found - options.ranks.begin());
  auto met = meet(door,
                  {.ranks = host->ranks_,
                   .index = host->me_,
                   .names = host->names_,
                   .group = options.group,
                   .leader = options.leader,
                   .settings = *settings},
                  now() + options.timeout);
  if (!met) return tl::unexpected(met.error());
  host->process_ = getpid();
  host->segment_ = std::move(met->segment);
  host->processes_ = std::move(met->processes);
  host->bells_ = std::move(met->bells);
  host->placement_ = met->placement;
  host->sockets_ = std::move(met->sockets);
  host->crowded_ = host->header().cores < host->size();
  const std::size_t slots = all_slots(settings->slot_bytes);
  host->heap_ = Heap(slots, settings->shared_bytes - slots);
  if (auto good = host->watch(); !good) return tl::unexpected(good.error());
  return host;
}

Host::~Host() {
  if (segment_.data() == nullptr || getpid() != process_) return;
  header().rank[me_].state.left.store(1);
  for (std::size_t i = 0; i < size(); ++i) {
    if (i != me_) ring(i);
  }
}

Expected<void> Host::all_reduce(const Call& call) {
  if (!Sum::possible(call.type, call.reduction)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("there is no {} of {}", to_string(call.reduction), to_string(call.type)));
  }
  if (call.count > 0 && (call.input == nullptr || call.output == nullptr))
    return fail(ErrorCode::invalid_argument, fmt::format("a buffer of a {} is null", call.describe()));
  if (call.count > SIZE_MAX / 2 / size_of(call.type))
    return fail(ErrorCode::invalid_argument, fmt::format("{} elements: no memory has so many", call.count));
  if (trouble()) return tl::unexpected(*trouble());
  Operation operation(*this, call);
  while (!operation.done()) {
    if (!operation.progress() && !trouble()) wait(operation.awaited(), call.deadline);
    if (trouble()) return tl::unexpected(*trouble());
  }
  return {};
}

Expected<void*> Host::allocate(std::size_t bytes) {
  const auto at = heap_.take(bytes);
  if (!at) {
    return fail(
        ErrorCode::no_capacity,
        fmt::format("cannot allocate {} bytes of shared memory: at most {} are free, of {} for each rank; "
                    "free some, or raise shared_bytes",
                    bytes, heap_.largest(), settings_.shared_bytes));
  }
  if (auto good = commit(part(me_) + *at, bytes); !good) {
    release(part(me_) + *at, heap_.give_back(*at));
    return fail(good.error().code, fmt::format("{} {}", names_[me_], good.error().message),
                {static_cast<std::uint16_t>(ranks_[me_])});
  }
  return part(me_) + *at;
}

bool Host::free(const void* data) {
  const std::uint64_t at = offset(data, 0);
  const std::size_t size = at == kNowhere ? 0 : heap_.give_back(at);
  if (size > 0) release(part(me_) + at, size);
  return size > 0;
}

std::uint64_t Host::offset(const void* data, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto first = reinterpret_cast<std::uintptr_t>(part(me_));
  const std::size_t own = settings_.shared_bytes;
  return at >= first && at - first <= own && bytes <= own - (at - first) ? at - first : kNowhere;
}

std::pair<std::uint64_t, std::uint64_t> Host::enqueue(std::uint64_t pieces) {
  pieces_ += pieces;
  return {operations_++, pieces_ - pieces};
}

}  // namespace passing::inhost
