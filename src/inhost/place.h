// Who shares memory with whom: docs/inhost.md section 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace passing::inhost {

/// The same on all ranks of a host.
struct Settings {
  std::size_t shared_bytes = 64 << 20;  ///< for each rank: the slots, and what allocate() can give
  std::size_t slot_bytes = 0;           ///< of a piece of a tensor; 0: chosen

  bool operator==(const Settings&) const = default;
  /// With slot_bytes chosen, or why they do not fit `ranks` ranks.
  Expected<Settings> for_ranks(std::size_t ranks) const;
};

/// The kernel's. It is read once: whoever has asked for it can ask again without a descriptor.
Expected<std::string> boot_id();

/// Where a rank is, as it tells all others at the rendezvous.
struct Place {
  std::string version;        ///< of the library
  std::string boot;           ///< the kernel's boot id
  std::string label;          ///< of the host, if the user gave one
  std::string door;           ///< the name of its socket
  std::uint64_t network = 0;  ///< the network namespace: doors have names in it
  std::uint32_t user = 0;
  std::uint32_t process = 0;
  Settings settings;

  /// This process. A label makes several hosts out of one machine, never one host out of several.
  static Place here(std::string version, std::string label, std::string door, const Settings& settings);
  std::string encode() const;
  static std::optional<Place> decode(const std::string& data);
};

/// The ranks that share memory with `rank`, itself included, in order. With labels: those with the same
/// label, and it is an error, the same on all of them, if they cannot share; without: those that can.
Expected<std::vector<std::uint32_t>> neighbours(const std::vector<Place>& places, std::uint32_t rank);

}  // namespace passing::inhost
