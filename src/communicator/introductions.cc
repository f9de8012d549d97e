#include "communicator/introductions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace passing {

Expected<std::vector<Introduction>> check_introductions(const Introduction& own,
                                                        const std::vector<std::string>& blobs) {
  if (blobs.size() != own.size) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("the rendezvous gave {} blobs for {} ranks", blobs.size(), own.size));
  }
  // Before anything else: another version may explain all that looks wrong.
  for (std::uint32_t r = 0; r < own.size; ++r) {
    const auto version = leading_version(blobs[r]);
    if (!version || *version == own.version) continue;
    const auto other = Introduction::decode(blobs[r]);
    return fail(
        ErrorCode::disagreement,
        fmt::format("{} has version {} of the library, {} has {}: give all ranks the same",
                    other ? other->name() : fmt::format("rank {}", r), *version, own.name(), own.version),
        {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(own.rank)});
  }
  std::vector<Introduction> all;
  for (std::uint32_t r = 0; r < own.size; ++r) {
    auto other = Introduction::decode(blobs[r]);
    if (!other || !other->trouble.empty()) {
      if (other) {
        return fail(ErrorCode::peer_lost, fmt::format("rank {} cannot take part: {}", r, other->trouble),
                    {static_cast<std::uint16_t>(r)});
      }
      return fail(
          ErrorCode::disagreement,
          fmt::format(
              "what rank {} gave at the rendezvous cannot be read: do all ranks run the same version?", r),
          {static_cast<std::uint16_t>(r)});
    }
    const auto differ = [&](const char* what, const auto& theirs, const auto& ours) {
      return fail(ErrorCode::disagreement,
                  fmt::format("{} has {} {}, {} has {}: give all ranks the same", other->name(), what, theirs,
                              own.name(), ours),
                  {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(own.rank)});
    };
    if (other->rank != r || other->size != own.size) {
      return fail(ErrorCode::disagreement,
                  fmt::format("{} of {} was given as rank {} of {}: check the launcher's variables",
                              other->name(), other->size, r, own.size),
                  {static_cast<std::uint16_t>(r)});
    }
    if (other->strategy != own.strategy) return differ("strategy", other->strategy, own.strategy);
    if (other->local_domain != own.local_domain)
      return differ("local_domain", other->local_domain, own.local_domain);
    if (other->carrier != own.carrier) return differ("carrier", other->carrier, own.carrier);
    if (own.carrier == "memory" && other->process != own.process) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("carrier is 'memory' but {} and {} are different processes: set PASSING_CARRIER "
                      "to tcp on all ranks",
                      other->name(), own.name()),
          {static_cast<std::uint16_t>(r), static_cast<std::uint16_t>(own.rank)});
    }
    if (other->lanes != own.lanes) return differ("lanes", other->lanes, own.lanes);
    if (own.strategy == "auto" && other->switch_rate != own.switch_rate)
      return differ("switch_rate", other->switch_rate, own.switch_rate);
    if (own.strategy == "auto" && other->has_switch != own.has_switch)
      return differ("a controller:", other->has_switch, own.has_switch);
    all.push_back(std::move(*other));
  }
  return all;
}

double slowest_link(const std::vector<Introduction>& all) {
  double slowest = 0;
  for (const Introduction& each : all) {
    if (each.link_rate > 0 && (slowest == 0 || each.link_rate < slowest)) slowest = each.link_rate;
  }
  return slowest > 0 ? slowest : strategy::Plan{}.link_rate;
}

Expected<strategy::Hosts> hosts_of(const std::vector<inhost::Place>& places, std::uint32_t rank) {
  strategy::Hosts hosts;
  std::vector<bool> placed(places.size());
  for (std::uint32_t r = 0; r < places.size(); ++r) {
    if (placed[r]) continue;
    auto ranks = inhost::neighbours(places, r);
    if (!ranks) return tl::unexpected(ranks.error());
    for (std::uint32_t i = 0; i < ranks->size(); ++i) {
      placed[(*ranks)[i]] = true;
      if ((*ranks)[i] != rank) continue;
      hosts.own = static_cast<std::uint32_t>(hosts.ranks.size());
      hosts.index = i;
    }
    hosts.ranks.push_back(std::move(*ranks));
  }
  return hosts;
}

Expected<strategy::Racks> racks_of(const strategy::Hosts& hosts, const std::vector<Introduction>& all) {
  strategy::Racks racks;
  std::vector<std::string> labels;
  for (std::uint32_t h = 0; h < hosts.size(); ++h) {
    const Introduction& first = all[hosts.ranks[h][0]];
    for (const std::uint32_t rank : hosts.ranks[h]) {
      if (all[rank].rack == first.rack) continue;
      return fail(ErrorCode::disagreement,
                  fmt::format("{} and {} share a host, but their racks are '{}' and '{}': give them the same "
                              "PASSING_RACK",
                              first.name(), all[rank].name(), first.rack, all[rank].rack),
                  {static_cast<std::uint16_t>(first.rank), static_cast<std::uint16_t>(rank)});
    }
    const auto found = std::find(labels.begin(), labels.end(), first.rack);
    const auto index = static_cast<std::size_t>(found - labels.begin());
    if (found == labels.end()) {
      labels.push_back(first.rack);
      racks.hosts.emplace_back();
    }
    if (h == hosts.own) {
      racks.own = static_cast<std::uint32_t>(index);
      racks.position = static_cast<std::uint32_t>(racks.hosts[index].size());
    }
    racks.hosts[index].push_back(h);
  }
  return racks;
}

}  // namespace passing
