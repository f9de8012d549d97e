#include "endpoint/config.h"

#include <fmt/format.h>

#include <bit>

namespace passing::endpoint {

Expected<void> Config::validate() const {
  const auto refuse = [](const char* setting, auto value, const std::string& range) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is {}: must be {}", setting, value, range));
  };
  if (members < 1 || members > PASSING_MAX_MEMBERS) return refuse("members", members, "1 to 64");
  if (member >= members) return refuse("member", member, fmt::format("0 to {}", members - 1));
  if (tree() < members || tree() > PASSING_MAX_TREE_MEMBERS) {
    return refuse("tree_members", tree_members, fmt::format("{} to 1023", members));
  }
  if (lanes < 1 || lanes > PASSING_MAX_LANES) return refuse("lanes", lanes, "1 to 64");
  if (!std::has_single_bit(slots) || slots > PASSING_MAX_SLOTS) {
    return refuse("slots", slots, "a power of two from 1 to 32768");
  }
  if (elements < 1 || elements > PASSING_MAX_ELEMENTS) return refuse("elements", elements, "1 to 2112");
  if (block_elements < elements || block_elements % elements != 0 || block_elements / elements > 128) {
    return refuse("block_elements", block_elements,
                  fmt::format("a multiple of elements ({}), at most 128 times", elements));
  }
  if (lookahead < -1 || lookahead > 65535) {
    return refuse("lookahead", lookahead, "0 to 65535, or -1 for the default");
  }
  if (first_sequence % (2 * slots) != 0) {
    return refuse("first_sequence", first_sequence, "a multiple of twice the slots");
  }
  if (switch_addresses.size() != lanes) {
    return refuse("switch_addresses", switch_addresses.size(), "one per lane");
  }
  if (!names.empty() && names.size() != members) {
    return refuse("names", names.size(), "one per member, or none");
  }
  if (minimum_timeout <= 0 || maximum_timeout < minimum_timeout) {
    return refuse("minimum_timeout", minimum_timeout, "above 0 and at most maximum_timeout");
  }
  if (initial_timeout < minimum_timeout || initial_timeout > maximum_timeout) {
    return refuse("initial_timeout", initial_timeout, "between minimum_timeout and maximum_timeout");
  }
  if (grace <= 0) return refuse("grace", grace, "above 0");
  return {};
}

std::uint32_t Config::blocks_ahead() const {
  if (lookahead >= 0) return static_cast<std::uint32_t>(lookahead);
  return (slots + packets_per_block() - 1) / packets_per_block();
}

std::string Config::name_of(std::uint16_t which) const {
  return which < names.size() ? names[which] : fmt::format("member {}", which);
}

std::string Config::names_of(const std::vector<std::uint16_t>& which) const {
  std::string list;
  for (const std::uint16_t each : which) {
    if (!list.empty()) list += ", ";
    list += name_of(each);
  }
  return list;
}

}  // namespace passing::endpoint
