// How ranks find each other: everyone gives a blob, everyone gets all.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "passing/config.h"

namespace passing::net {

struct Rendezvous {
  std::string job;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  Duration timeout = 60 * kSecond;
  bool quiet = false;  ///< says nothing on standard error while it waits
};

/// Through files in a directory that all ranks share. What an earlier run left there does no harm.
Exchange directory_exchange(const Rendezvous& who, const std::string& directory);
/// Through the controller of a switch, for at most kMostRendezvous ranks.
Exchange controller_exchange(const Rendezvous& who, const std::string& controller, const std::string& token);

}  // namespace passing::net
