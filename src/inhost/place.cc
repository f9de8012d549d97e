#include "inhost/place.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/shortage.h"
#include "inhost/layout.h"
#include "wire/wire.h"

namespace passing::inhost {
namespace {

constexpr std::size_t kWidest = 8;
// So much of each stripe, so that sums pay for their waking up; but all slots of a few ranks stay in a cache.
constexpr std::size_t kGoodRun = 128 << 10;
constexpr std::size_t kLargestGood = 1 << 20;

tl::unexpected<Error> differ(std::uint32_t a, std::uint32_t b, const std::string& what,
                             const std::string& remedy) {
  return fail(ErrorCode::disagreement,
              fmt::format("rank {} and rank {} are to share memory, but {}; {}", a, b, what, remedy),
              {static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b)});
}

}  // namespace

Expected<Settings> Settings::for_ranks(std::size_t ranks) const {
  // A block of every rank's stripe, in the widest type.
  const std::size_t least = (ranks * PASSING_BLOCK_ELEMENTS * kWidest + kPage - 1) / kPage * kPage;
  const std::size_t most = (PTRDIFF_MAX - sizeof(Header)) / ranks / kPage * kPage;
  if (shared_bytes > most) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("shared memory is {} bytes for each rank: must be at most {} for {} ranks in a host",
                    shared_bytes, most, ranks));
  }
  Settings chosen = *this;
  if (chosen.slot_bytes == 0) {
    chosen.slot_bytes =
        std::max(least, std::min({ranks * kGoodRun, kLargestGood, shared_bytes / all_slots(kPage) * kPage}));
  }
  chosen.slot_bytes = chosen.slot_bytes / kPage * kPage;
  chosen.shared_bytes = chosen.shared_bytes / kPage * kPage;
  if (chosen.slot_bytes < least) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("a slot of shared memory is {} bytes: must be at least {} for {} ranks in a host",
                            slot_bytes, least, ranks));
  }
  if (chosen.shared_bytes < all_slots(chosen.slot_bytes)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("shared memory is {} bytes for each rank: must be at least {} for {} ranks in a "
                            "host",
                            shared_bytes, all_slots(chosen.slot_bytes), ranks));
  }
  return chosen;
}

Expected<std::string> boot_id() {
  static Mutex mutex;
  static std::string known PASSING_GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  if (!known.empty()) return known;
  errno = 0;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  const int error = errno;
  if (!file && is_shortage(error))
    return system_failure(ErrorCode::no_capacity, "cannot read which machine this is", error);
  file >> known;
  return known;
}

Place Place::here(std::string version, std::string label, std::string door, const Settings& settings) {
  Place place;
  place.version = std::move(version);
  place.label = std::move(label);
  place.door = std::move(door);
  place.settings = settings;
  place.boot = boot_id().value_or("");
  struct stat about {};
  if (stat("/proc/self/ns/net", &about) == 0) place.network = about.st_ino;
  place.user = geteuid();
  place.process = static_cast<std::uint32_t>(getpid());
  return place;
}

std::string Place::encode() const {
  Writer out;
  out.put(version).put(boot).put(label).put(door).put(network).put(user).put(process);
  out.put(std::uint64_t{settings.shared_bytes}).put(std::uint64_t{settings.slot_bytes});
  return out.take();
}

std::optional<Place> Place::decode(const std::string& data) {
  Place place;
  std::uint64_t shared = 0;
  std::uint64_t slot = 0;
  Reader in(data);
  in.get(place.version).get(place.boot).get(place.label).get(place.door).get(place.network);
  in.get(place.user).get(place.process).get(shared).get(slot);
  if (!in.whole()) return std::nullopt;
  place.settings = {shared, slot};
  return place;
}

Expected<std::vector<std::uint32_t>> neighbours(const std::vector<Place>& places, std::uint32_t rank) {
  const Place& own = places[rank];
  const auto within_reach = [&](const Place& other) {
    return other.boot == own.boot && other.network == own.network && other.user == own.user;
  };
  // Labels make several hosts of one machine, or none: a rank that lacks one was forgotten.
  std::optional<std::uint32_t> labelled;
  std::optional<std::uint32_t> bare;
  for (std::uint32_t r = 0; r < places.size(); ++r) {
    auto& first = places[r].label.empty() ? bare : labelled;
    if (!first && within_reach(places[r])) first = r;
  }
  if (labelled && bare) {
    return fail(
        ErrorCode::disagreement,
        fmt::format("rank {} has the host label '{}', rank {} on the same machine has none; give both "
                    "a label (PASSING_HOST), or neither",
                    *labelled, places[*labelled].label, *bare),
        {static_cast<std::uint16_t>(*labelled), static_cast<std::uint16_t>(*bare)});
  }
  std::vector<std::uint32_t> host;
  for (std::uint32_t r = 0; r < places.size(); ++r) {
    if (places[r].label == own.label && (!own.label.empty() || within_reach(places[r]))) host.push_back(r);
  }
  // Compared with the first of the host, so that all its ranks find the same.
  const std::uint32_t a = host.front();
  const Place& first = places[a];
  for (const std::uint32_t b : host) {
    const Place& other = places[b];
    if (other.boot != first.boot) {
      return differ(a, b, fmt::format("they are on different machines, both labelled '{}'", own.label),
                    "give each machine a label of its own, or none");
    }
    if (other.network != first.network) {
      return differ(a, b,
                    fmt::format("they are in different network namespaces, both labelled '{}'", own.label),
                    "give each container a label of its own, or one network to both");
    }
    if (other.user != first.user) {
      return differ(a, b, fmt::format("they are of the users {} and {}", first.user, other.user),
                    "run them as one user, or give them different host labels");
    }
    if (other.version != first.version) {
      return differ(a, b,
                    fmt::format("they have versions {} and {} of the library", first.version, other.version),
                    "install one version on the host");
    }
    if (other.settings != first.settings) {
      return differ(a, b,
                    fmt::format("have {} and {} bytes of shared memory, in slots of {} and {}",
                                first.settings.shared_bytes, other.settings.shared_bytes,
                                first.settings.slot_bytes, other.settings.slot_bytes),
                    "give both the same settings");
    }
  }
  if (host.size() > kMostRanks) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} ranks are to share memory: at most {} can; give them different host labels",
                            host.size(), kMostRanks));
  }
  return host;
}

}  // namespace passing::inhost
