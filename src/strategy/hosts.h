// Which ranks share a host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace passing::strategy {

/// The ranks of each host in their order, hosts in the order of their first ranks. The same on all ranks.
struct Hosts {
  std::vector<std::vector<std::uint32_t>> ranks;
  std::uint32_t own = 0;    ///< this rank's host,
  std::uint32_t index = 0;  ///< and its place there

  std::size_t size() const { return ranks.size(); }
  const std::vector<std::uint32_t>& here() const { return ranks[own]; }
  std::size_t fewest() const { return std::min_element(ranks.begin(), ranks.end(), shorter)->size(); }
  std::size_t most() const { return std::max_element(ranks.begin(), ranks.end(), shorter)->size(); }
  /// The i-th rank of every host, each of which has one.
  std::vector<std::uint32_t> row(std::size_t i) const {
    std::vector<std::uint32_t> result;
    for (const auto& each : ranks) result.push_back(each[i]);
    return result;
  }

 private:
  static bool shorter(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
    return a.size() < b.size();
  }
};

/// The hosts of each rack in their order, racks in the order of their first hosts. The same on all ranks.
struct Racks {
  std::vector<std::vector<std::uint32_t>> hosts;
  std::uint32_t own = 0;       ///< this rank's rack,
  std::uint32_t position = 0;  ///< and its host's place there

  std::size_t size() const { return hosts.size(); }
  std::size_t fewest() const {
    std::size_t least = hosts[0].size();
    for (const auto& each : hosts) least = std::min(least, each.size());
    return least;
  }
  /// The i-th rank of every host of this rack.
  std::vector<std::uint32_t> row(const Hosts& all, std::size_t i) const {
    std::vector<std::uint32_t> result;
    for (const std::uint32_t host : hosts[own]) result.push_back(all.ranks[host][i]);
    return result;
  }
  /// The i-th rank of the p-th host of every rack.
  std::vector<std::uint32_t> column(const Hosts& all, std::size_t p, std::size_t i) const {
    std::vector<std::uint32_t> result;
    for (const auto& each : hosts) result.push_back(all.ranks[each[p]][i]);
    return result;
  }
};

}  // namespace passing::strategy
