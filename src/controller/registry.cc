#include "controller/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "controller/random_key.h"
#include "net/limits.h"

namespace passing::controller {
namespace {

using net::kLongestName;
using net::kShortestToken;

auto refuse(std::string sentence) { return fail(ErrorCode::invalid_argument, std::move(sentence)); }

// In time that does not depend on where they differ.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

// What a blob costs: every entry something, also an empty one.
std::size_t cost(const std::string& tag, const std::string& blob) { return blob.size() + tag.size() + 128; }

// What a job without lanes must look like: its members only meet.
Expected<void> check_rendezvous(const JoinRequest& request) {
  if (request.slots == 0 && request.addresses.empty()) return {};
  return refuse(fmt::format("{} slots and {} addresses for 0 lanes: give none of either", request.slots,
                            request.addresses.size()));
}

// What the dataplane needs of a job with lanes.
Expected<void> check_lanes(const JoinRequest& request) {
  if (request.lanes > PASSING_MAX_LANES) {
    return refuse(fmt::format("lanes is {}: must be 1 to {}, or 0 for a rendezvous only", request.lanes,
                              PASSING_MAX_LANES));
  }
  if (!std::has_single_bit(request.slots) || request.slots > PASSING_MAX_SLOTS) {
    return refuse(
        fmt::format("slots is {}: must be a power of two from 1 to {}", request.slots, PASSING_MAX_SLOTS));
  }
  if (request.addresses.size() != request.lanes) {
    return refuse(
        fmt::format("{} addresses for {} lanes: give one per lane", request.addresses.size(), request.lanes));
  }
  return {};
}

// Of two processes never, unless they have no sockets.
bool same(const std::vector<net::SocketAddress>& a, const std::vector<net::SocketAddress>& b) {
  return !a.empty() && std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return net::to_protocol(x) == net::to_protocol(y);
  });
}

}  // namespace

Expected<void> Registry::check(const JoinRequest& request) const {
  const auto good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  };
  if (request.job.empty() || request.job.size() > kLongestName ||
      !std::all_of(request.job.begin(), request.job.end(), good)) {
    return refuse(fmt::format("job name '{}': use 1 to {} letters, digits, dots, dashes or underscores",
                              request.job.substr(0, kLongestName), kLongestName));
  }
  if (request.token.size() < kShortestToken) {
    return refuse(fmt::format("the token has {} characters: use at least {} (PASSING_TOKEN)",
                              request.token.size(), kShortestToken));
  }
  const std::uint32_t most = request.lanes == 0 ? net::kMostRendezvous : PASSING_MAX_MEMBERS;
  if (request.size < 1 || request.size > most) {
    return refuse(fmt::format("size is {}: must be 1 to {}", request.size, most));
  }
  if (request.rank >= request.size) {
    return refuse(fmt::format("rank is {}: must be 0 to {}", request.rank, request.size - 1));
  }
  return request.lanes == 0 ? check_rendezvous(request) : check_lanes(request);
}

Expected<Membership> Registry::join(Time now, const JoinRequest& request) {
  if (auto valid = check(request); !valid) return tl::unexpected(valid.error());
  const MutexLock lock(mutex_);
  if (!ending_.empty()) return fail(ErrorCode::epoch_ended, ending_);
  auto found = find_or_create(now, request);
  if (!found) return tl::unexpected(found.error());
  Job& job = **found;
  auto place = place_for(now, job, request);
  if (!place) return tl::unexpected(place.error());
  Epoch& epoch = **place;
  vacate(epoch, request.rank);
  epoch.members[request.rank] = {
      .joined = true, .departed = false, .heard = now, .addresses = request.addresses};
  const Membership membership{.job = job.id, .epoch = epoch.number, .key = epoch.key};
  if (auto begun = begin_if_complete(job); !begun) return tl::unexpected(begun.error());
  return membership;
}

// The first member creates the job; the others must know its token and agree with it.
Expected<Registry::Job*> Registry::find_or_create(Time now, const JoinRequest& request) {
  const auto found = jobs_.find(request.job);
  if (found == jobs_.end()) {
    // Lane l takes its slots from thread l mod T; jobs that are still forming have been promised theirs.
    std::vector<std::uint32_t> free = dataplane_.totals().free_by_thread;
    const auto need = [&](std::uint32_t lanes, std::uint32_t slots, std::size_t thread) {
      return static_cast<std::uint32_t>((lanes + free.size() - 1 - thread) / free.size()) * slots;
    };
    for (const auto& [name, other] : jobs_) {
      if (other.current->running || !other.current->ended.empty()) continue;
      for (std::size_t t = 0; t < free.size(); ++t)
        free[t] -= std::min(free[t], need(other.lanes, other.slots, t));
    }
    for (std::size_t t = 0; t < free.size(); ++t) {
      if (need(request.lanes, request.slots, t) <= free[t]) continue;
      return fail(
          ErrorCode::no_capacity,
          fmt::format("job '{}' asks for {} lanes x {} slots, of {} slots free{}", request.job, request.lanes,
                      request.slots, free[t], free.size() > 1 ? " on each thread of the switch" : ""));
    }
    if (jobs_.size() >= options_.jobs) {
      return fail(ErrorCode::no_capacity, fmt::format("the switch has {} jobs already", jobs_.size()));
    }
    Job job{.id = next_id_++,
            .token = request.token,
            .size = request.size,
            .lanes = request.lanes,
            .slots = request.slots};
    job.current = new_epoch(job, now);
    return &jobs_.emplace(request.job, std::move(job)).first->second;
  }
  Job& job = found->second;
  if (!same_secret(job.token, request.token)) {
    return refuse(fmt::format("the token does not fit job '{}': give all its members the same PASSING_TOKEN",
                              request.job));
  }
  if (request.size != job.size || request.lanes != job.lanes || request.slots != job.slots) {
    return refuse(fmt::format("job '{}' has size {}, {} lanes and {} slots; rank {} asks for {}, {} and {}",
                              request.job, job.size, job.lanes, job.slots, request.rank, request.size,
                              request.lanes, request.slots));
  }
  return &job;
}

// The epoch that a member joins: the current one while it forms, else the next.
Expected<Registry::Epoch*> Registry::place_for(Time now, Job& job, const JoinRequest& request) {
  Epoch& current = *job.current;
  Member& holder = current.members[request.rank];
  const bool forming = !current.running && current.ended.empty();
  // The same sockets: its answer was lost, and it asks again.
  if (current.ended.empty() && holder.joined && !holder.departed && same(holder.addresses, request.addresses))
    return &current;
  if (holder.joined && !holder.departed) {
    if (!request.rejoin) {
      return refuse(
          fmt::format("rank {} of job '{}' is taken: another process has it; if that one is dead, join with "
                      "rejoin, or wait until its lease ends",
                      request.rank, request.job));
    }
    if (forming) return &current;  // nothing has begun: take its place
    current.ended = fmt::format("rank {} restarted", request.rank);
    depart(job, current, request.rank);
  }
  if (forming) return &current;
  if (!job.next) job.next = new_epoch(job, now);
  Member& next_holder = job.next->members[request.rank];
  if (next_holder.joined && !request.rejoin && !same(next_holder.addresses, request.addresses)) {
    return refuse(
        fmt::format("rank {} of job '{}' is taken: another process waits for the next epoch with it",
                    request.rank, request.job));
  }
  return job.next.get();
}

std::unique_ptr<Registry::Epoch> Registry::new_epoch(Job& job, Time now) const {
  auto epoch = std::make_unique<Epoch>();
  epoch->number = ++job.epochs;
  epoch->key = random_key();
  epoch->members.resize(job.size);
  epoch->began = now;
  return epoch;
}

Expected<void> Registry::begin_if_complete(Job& job) {
  // The old epoch is over when everyone in it has departed.
  const auto gone = [](const Member& m) { return !m.joined || m.departed; };
  if (job.next && std::all_of(job.current->members.begin(), job.current->members.end(), gone)) {
    job.current = std::move(job.next);
  }
  Epoch& epoch = *job.current;
  const auto here = [](const Member& m) { return m.joined && !m.departed; };
  if (epoch.running || !epoch.ended.empty() || !std::all_of(epoch.members.begin(), epoch.members.end(), here))
    return {};
  if (job.lanes > 0) {
    if (auto installed = install(job, epoch); !installed) {
      epoch.ended = installed.error().message;
      return installed;
    }
  }
  epoch.running = true;
  return {};
}

Expected<void> Registry::install(const Job& job, const Epoch& epoch) {
  std::vector<net::SocketAddress> addresses;
  for (const Member& member : epoch.members) {
    addresses.insert(addresses.end(), member.addresses.begin(), member.addresses.end());
  }
  return dataplane_.install({.job = job.id,
                             .epoch = epoch.number,
                             .key = epoch.key,
                             .members = static_cast<std::uint16_t>(job.size),
                             .lanes = static_cast<std::uint8_t>(job.lanes),
                             .slots = job.slots,
                             .first_sequence = 0,
                             .addresses = {}},
                            addresses);
}

Expected<Registry::Epoch*> Registry::authorised(const std::string& name, std::uint64_t key) {
  const auto found = jobs_.find(name);
  if (found != jobs_.end()) {
    for (Epoch* epoch : {found->second.current.get(), found->second.next.get()}) {
      if (epoch != nullptr && epoch->key == key) return epoch;
    }
  }
  // Whether the job exists is nobody's business without the key.
  return refuse(fmt::format("the key does not fit job '{}', or its epoch is over: join again", name));
}

// The same for a request that speaks for one rank.
Expected<Registry::Epoch*> Registry::authorised_member(const std::string& name, std::uint64_t key,
                                                       std::uint32_t rank) {
  auto found = authorised(name, key);
  if (!found) return found;
  const auto& members = (*found)->members;
  if (rank < members.size() && members[rank].joined) return found;
  return refuse(fmt::format("rank {} has not joined", rank));
}

Expected<MemberView> Registry::look(Time now, const std::string& name, std::uint64_t key,
                                    std::uint32_t rank) {
  const MutexLock lock(mutex_);
  const auto found = authorised_member(name, key, rank);
  if (!found) return tl::unexpected(found.error());
  Epoch& epoch = **found;
  epoch.members[rank].heard = now;
  MemberView view;
  view.reason = epoch.ended;
  view.state = !epoch.ended.empty() ? MemberView::State::ended
               : epoch.running      ? MemberView::State::running
                                    : MemberView::State::forming;
  for (std::uint16_t r = 0; r < static_cast<std::uint16_t>(epoch.members.size()); ++r) {
    const Member& member = epoch.members[r];
    if (!member.joined) view.missing.push_back(r);
    view.addresses.push_back(member.place());
  }
  if (view.state == MemberView::State::ended) view.missing = epoch.silent;
  return view;
}

Expected<void> Registry::leave(const std::string& name, std::uint64_t key, std::uint32_t rank) {
  const MutexLock lock(mutex_);
  const auto found = authorised_member(name, key, rank);
  if (!found) return tl::unexpected(found.error());
  Epoch& epoch = **found;
  Job& job = jobs_.at(name);
  if (!epoch.running) {
    vacate(epoch, rank);
  } else {
    depart(job, epoch, rank);
  }
  tidy(name);
  return {};
}

// Frees a rank of an epoch that has not begun. Its blobs go with it: the next holder gives its own.
void Registry::vacate(Epoch& epoch, std::uint32_t rank) {
  epoch.members[rank] = {};
  for (auto& [tag, blobs] : epoch.blobs) {
    const auto blob = blobs.find(rank);
    if (blob == blobs.end()) continue;
    epoch.blob_bytes -= cost(tag, blob->second);
    blobs.erase(blob);
  }
  std::erase_if(epoch.blobs, [](const auto& exchange) { return exchange.second.empty(); });
}

void Registry::depart(Job& job, Epoch& epoch, std::uint32_t rank) {
  Member& member = epoch.members[rank];
  if (!member.joined || member.departed) return;
  member.departed = true;
  if (epoch.running && job.lanes > 0)
    dataplane_.depart(job.id, epoch.number, static_cast<std::uint16_t>(rank));
}

// Forgets a job nobody is in, and lets a waiting epoch begin.
void Registry::tidy(const std::string& name) {
  Job& job = jobs_.at(name);
  static_cast<void>(begin_if_complete(job));
  const auto gone = [](const Member& m) { return !m.joined || m.departed; };
  const auto& members = job.current->members;
  if (!job.next && std::all_of(members.begin(), members.end(), gone)) jobs_.erase(name);
}

Expected<void> Registry::give(const std::string& name, std::uint64_t key, std::uint32_t rank,
                              const std::string& tag, std::string blob) {
  const MutexLock lock(mutex_);
  const auto found = authorised_member(name, key, rank);
  if (!found) return tl::unexpected(found.error());
  Epoch& epoch = **found;
  const auto given = epoch.blobs.find(tag);
  if (given != epoch.blobs.end() && given->second.count(rank) != 0) {
    if (given->second.at(rank) == blob) return {};  // asked again
    return refuse(fmt::format("rank {} gave another blob under '{}' before", rank, tag));
  }
  const std::size_t bytes = epoch.blob_bytes + cost(tag, blob);
  if (tag.size() > kLongestName || bytes > options_.blob_bytes) {
    return refuse(fmt::format(
        "the blobs of job '{}' have {} bytes: at most {} fit, under tags of at most {} characters", name,
        bytes, options_.blob_bytes, kLongestName));
  }
  epoch.blob_bytes = bytes;
  epoch.blobs[tag][rank] = std::move(blob);
  return {};
}

Expected<Registry::Blobs> Registry::take(const std::string& name, std::uint64_t key, const std::string& tag) {
  const MutexLock lock(mutex_);
  const auto found = authorised(name, key);
  if (!found) return tl::unexpected(found.error());
  Epoch& epoch = **found;
  static const std::map<std::uint32_t, std::string> kNothing;
  const auto exchanged = epoch.blobs.find(tag);
  const auto& exchange = exchanged == epoch.blobs.end() ? kNothing : exchanged->second;
  Blobs blobs;
  for (std::uint16_t r = 0; r < static_cast<std::uint16_t>(epoch.members.size()); ++r) {
    const auto blob = exchange.find(r);
    if (blob == exchange.end()) {
      blobs.missing.push_back(r);
    } else {
      blobs.all.push_back(blob->second);
    }
  }
  if (!blobs.missing.empty()) blobs.all.clear();
  return blobs;
}

void Registry::housekeeping(Time now) {
  const MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (auto& [name, job] : jobs_) {
    names.push_back(name);
    for (Epoch* epoch : {job.current.get(), job.next.get()}) {
      if (epoch == nullptr) continue;
      for (std::uint32_t r = 0; r < epoch->members.size(); ++r) {
        Member& member = epoch->members[r];
        if (!member.joined || member.departed || now - member.heard < options_.lease) continue;
        if (!epoch->running) {
          vacate(*epoch, r);
          continue;
        }
        if (epoch->ended.empty()) {
          epoch->silent = {static_cast<std::uint16_t>(r)};
          epoch->ended = fmt::format("rank {}{} has not been heard of for {:.1f} s", r,
                                     member.addresses.empty() ? "" : " at " + member.place(),
                                     static_cast<double>(now - member.heard) / kSecond);
        }
        depart(job, *epoch, r);
      }
    }
    if (!job.current->running || job.lanes == 0) continue;
    Epoch& epoch = *job.current;
    dataplane::JobProgress sum;
    sum.lag.resize(job.size);
    for (const auto& part : dataplane_.progress(job.id)) {
      sum.slots_in_use += part.slots_in_use;
      sum.completed += part.completed;
      for (std::size_t m = 0; m < sum.lag.size(); ++m) sum.lag[m] += part.lag[m];
      if (part.missing != 0) {
        sum.missing = part.missing;
        sum.oldest = part.oldest;
      }
    }
    if (sum.missing != epoch.missing || sum.oldest != epoch.oldest) epoch.missing_since = now;
    epoch.missing = sum.missing;
    epoch.oldest = sum.oldest;
    epoch.progress = sum;
  }
  for (const std::string& name : names) tidy(name);
}

void Registry::end_all(const std::string& reason) {
  const MutexLock lock(mutex_);
  ending_ = reason;
  for (auto& [name, job] : jobs_) {
    for (Epoch* epoch : {job.current.get(), job.next.get()}) {
      if (epoch != nullptr && epoch->ended.empty()) epoch->ended = reason;
    }
  }
}

std::size_t Registry::members_present() {
  const MutexLock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [name, job] : jobs_) {
    for (const Epoch* epoch : {job.current.get(), job.next.get()}) {
      if (epoch == nullptr) continue;
      count +=
          static_cast<std::size_t>(std::count_if(epoch->members.begin(), epoch->members.end(),
                                                 [](const Member& m) { return m.joined && !m.departed; }));
    }
  }
  return count;
}

std::vector<JobView> Registry::view(Time now) {
  const MutexLock lock(mutex_);
  std::vector<JobView> rows;
  for (const auto& [name, job] : jobs_) {
    const Epoch& epoch = *job.current;
    JobView row{.name = name,
                .state = !epoch.ended.empty() ? "ending: " + epoch.ended
                         : epoch.running      ? "running"
                                              : "forming",
                .size = job.size,
                .epoch = epoch.number,
                .lanes = job.lanes,
                .slots = job.slots};
    row.slots_in_use = epoch.progress.slots_in_use;
    row.lag = epoch.progress.lag;
    row.completed = epoch.progress.completed;
    for (std::uint16_t r = 0; r < static_cast<std::uint16_t>(epoch.members.size()); ++r) {
      const Member& member = epoch.members[r];
      if (member.joined && !member.departed) row.joined.push_back(r);
      row.addresses.push_back(member.place());
      if (!epoch.running && !member.joined) row.waiting_for.push_back(r);
      if (epoch.missing != 0 && (epoch.missing >> r & 1) != 0) row.waiting_for.push_back(r);
    }
    if (!epoch.running) row.waiting_seconds = static_cast<double>(now - epoch.began) / kSecond;
    if (epoch.missing != 0) row.waiting_seconds = static_cast<double>(now - epoch.missing_since) / kSecond;
    rows.push_back(std::move(row));
  }
  return rows;
}

dataplane::Totals Registry::totals() {
  const MutexLock lock(mutex_);
  return dataplane_.totals();
}

}  // namespace passing::controller
