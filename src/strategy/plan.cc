#include "strategy/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "inhost/sum.h"
#include "strategy/reduce.h"
#include "wire/wire.h"

namespace passing::strategy {
namespace {

// A message between two hosts, from the call of a send to the return of its recv.
constexpr double kStep = 30e-6;
// A tensor's first result from the switch: its scale goes first.
constexpr double kRoundTrips = 150e-6;
// Headers: 1448 of 1514 bytes are TCP's payload, 1408 of 1486 ours.
constexpr double kMesh = 1514.0 / 1448;
constexpr double kSwitch = 1486.0 / 1408;
// Sums in the host, in bits per second, where nothing overlaps with them.
constexpr double kInHost = 16e9;
constexpr double kNever = std::numeric_limits<double>::infinity();

const char* name_of(Way way) {
  switch (way) {
    case Way::in_host: return "in the host";
    case Way::network: return "passing";
    case Way::ring: return "ring_hierarchical";
    case Way::narrow: return "a ring of hosts in 16 bits";
    case Way::doubling: return "halving and doubling among hosts";
  }
  return "?";
}

constexpr Way kAcross[] = {Way::network, Way::ring, Way::narrow, Way::doubling};

bool is_narrow(DataType type) { return inhost::wide_type(type) != type; }

// The sum behind an average of float16 may be out of its range where the average is not, and so may parts of
// a product. bfloat16 has the range of float32.
bool fits_narrow(const Signature& what) {
  const bool leaves_range = what.reduction == Reduction::average || what.reduction == Reduction::product;
  return is_narrow(what.type) && !(what.type == DataType::float16 && leaves_range);
}

}  // namespace

double Plan::seconds(Way way, const Signature& what) const {
  // Sums of narrow floats travel as float32, to the switch as int32, unless they are rounded before.
  const std::size_t width = size_of(way == Way::narrow ? what.type : inhost::wide_type(what.type));
  const auto bits = 8.0 * static_cast<double>(what.count * width);
  const auto all = static_cast<double>(hosts);
  const double link = link_rate * 1e9;
  const double steps = std::ceil(std::log2(all));
  const double twice = 2 * (all - 1) / all * bits * kMesh / link;
  switch (way) {
    case Way::in_host: return hosts == 1 ? 0 : kNever;
    case Way::network: {
      const std::size_t members = racks == 0 ? hosts : racks;
      if (hosts == 1 || route(what.type, what.reduction) != Route::network) return kNever;
      if (members > 1 && (!has_switch || members > PASSING_MAX_MEMBERS)) return kNever;
      // The hosts of a rack send each other their parts, and the results.
      const double in_rack = racks == 0 ? 0 : 2 * std::ceil(all / static_cast<double>(racks) - 1) * kStep;
      if (members == 1) return in_rack + twice;
      // Behind one NIC, or one processor, it takes in what all members send: a parameter server's incast.
      // Narrow floats travel as int32.
      const double rate = std::min(link, switch_rate * 1e9 / static_cast<double>(members));
      return in_rack + kRoundTrips + bits * kSwitch / rate;
    }
    case Way::ring: return hosts == 1 ? kNever : 2 * (all - 1) * kStep + twice;
    case Way::narrow: return hosts == 1 || !fits_narrow(what) ? kNever : 2 * (all - 1) * kStep + twice;
    case Way::doubling: {
      if (hosts == 1) return kNever;
      const bool cube = std::has_single_bit(hosts);
      // Hosts beyond a power of two give and get everything.
      const double extra = cube ? 0 : 2 * bits * kMesh / link;
      // Partners may all be in other racks, and share its uplink.
      const double sharing = racks == 0 ? 1 : std::ceil(all / static_cast<double>(racks));
      return (2 * steps + (cube ? 0 : 2)) * kStep + sharing * (twice + extra) + bits / kInHost;
    }
  }
  return kNever;
}

Way Plan::choose(const Signature& what) const {
  Way best = Way::in_host;
  for (const Way way : kAcross) {
    if (seconds(way, what) < seconds(best, what)) best = way;
  }
  return best;
}

// Times grow in straight lines with the count, and all that the switch sums has the same width there: if it
// is the fastest anywhere, it is so for one element, for very many, or where the two others are equally fast.
// Narrow floats have one more way without it, so they never go there where float32 does not.
bool Plan::uses_switch() const {
  const auto sums = [](std::uint64_t count) {
    return Signature{
        .kind = Kind::all_reduce, .type = DataType::float32, .reduction = Reduction::sum, .count = count};
  };
  constexpr std::uint64_t kMany = std::uint64_t{1} << 40;
  const auto ahead = [&](std::uint64_t count) {
    return seconds(Way::ring, sums(count)) - seconds(Way::doubling, sums(count));
  };
  std::vector<std::uint64_t> counts{0, 1, kMany};
  const double slope = (ahead(kMany) - ahead(0)) / static_cast<double>(kMany);
  if (const double meet = -ahead(0) / slope; meet > 0 && meet < static_cast<double>(kMany)) {
    const auto where = static_cast<std::uint64_t>(meet);
    counts.insert(counts.end(), {where, where + 1});
  }
  return std::ranges::any_of(counts, [&](auto count) { return choose(sums(count)) == Way::network; });
}

std::string Plan::explain(const Signature& what) const {
  const Way chosen = choose(what);
  std::string text = fmt::format("{}: {}; {} ranks on {} host{}", what.describe(), name_of(chosen), ranks,
                                 hosts, hosts == 1 ? "" : "s");
  if (racks > 0) text += fmt::format(" in {} racks", racks);
  if (chosen == Way::in_host) return text + ", which needs no network";
  text += fmt::format(
      ", {} of {:g} Gbit/s, {}", racks > 0 ? "uplinks" : "links", link_rate,
      has_switch ? fmt::format("a switch that takes in {:g} Gbit/s in all", switch_rate) : "no switch");
  // Then nobody has asked whether it is there.
  if (has_switch && !uses_switch()) text += ", which no tensor would go through";
  for (const Way way : kAcross) {
    const double time = seconds(way, what);
    if (time == kNever) continue;
    text += fmt::format("; {} takes at least {:.3g} ms", name_of(way), time * 1e3);
  }
  if (const std::size_t members = racks == 0 ? hosts : racks; has_switch && members > PASSING_MAX_MEMBERS) {
    text +=
        fmt::format("; the switch takes at most {} {}", PASSING_MAX_MEMBERS, racks == 0 ? "hosts" : "racks");
  }
  if (has_switch && is_narrow(what.type) && route(what.type, what.reduction) == Route::network)
    text += "; elements of 16 bits go through the switch as words of 32";
  if (has_switch && route(what.type, what.reduction) != Route::network)
    text += fmt::format("; the switch cannot do a {} of {}", to_string(what.reduction), to_string(what.type));
  return text;
}

}  // namespace passing::strategy
