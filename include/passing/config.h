// How a communicator is made: by hand, or from what a launcher says in the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "passing/error.h"

namespace passing {

/// Everyone gives a blob, everyone gets all, by rank. Called by create() on every rank, once.
using Exchange = std::function<Expected<std::vector<std::string>>(const std::string& blob)>;

/// Settings of a communicator. Each can be set by the environment variable named beside it.
struct Config {
  std::uint32_t rank = 0;        ///< PASSING_RANK, or the launcher's
  std::uint32_t size = 1;        ///< PASSING_SIZE, or the launcher's; 1 to 65535
  std::uint32_t local_rank = 0;  ///< PASSING_LOCAL_RANK: among the ranks of this host
  std::uint32_t local_size = 1;  ///< PASSING_LOCAL_SIZE
  std::string job = "default";   ///< PASSING_JOB, or the launcher's; the same on all ranks, and theirs alone
  std::string host;  ///< PASSING_HOST: ranks with the same label share memory; empty on all ranks of a
                     ///< machine: those that can, by its boot id, network namespace and user
  std::string rack;  ///< PASSING_RACK: hosts with the same label are below one switch of the network
  std::string local_domain = "host";  ///< PASSING_LOCAL_DOMAIN: who sums before the switch does: host, or
                                      ///< rack, where the links between racks are thin (passing, auto)
  std::string address;          ///< PASSING_ADDRESS: the IP that other ranks reach this one by; empty: chosen
  std::string strategy;         ///< PASSING_STRATEGY: see strategies(); empty: auto
  std::string carrier = "tcp";  ///< PASSING_CARRIER: what carries data between ranks: tcp, or memory, if all
                                ///< of them are threads of one process

  /// How ranks find each other: the first of these that is set.
  Exchange exchange;       ///< a function of yours: over MPI, a torch Store, ...
  std::string directory;   ///< PASSING_DIRECTORY: one that all ranks share
  std::string controller;  ///< PASSING_CONTROLLER: HOST:PORT of the switch; in_network, and passing on
                           ///< several hosts, need it in any case
  std::string token;  ///< PASSING_TOKEN, or the content of PASSING_TOKEN_FILE: the job's shared secret, 8
                      ///< characters or more

  std::string servers;  ///< PASSING_SERVERS: HOST:PORT of the parameter servers, separated by commas; for
                        ///< ps and ps_hierarchical

  std::chrono::milliseconds timeout{60'000};  ///< PASSING_TIMEOUT, in seconds: until an operation fails
  std::chrono::milliseconds create_timeout{
      60'000};              ///< PASSING_CREATE_TIMEOUT, in seconds: to find all ranks
  std::uint32_t lanes = 0;  ///< PASSING_LANES: to the switch. In passing and ring_hierarchical, stripes of a
                            ///< tensor, 1 to the fewest ranks of a host. 0: chosen, at most 4
  /// What auto goes by, in Gbit/s: PASSING_LINK_RATE, of a host's link each way, or with racks of an uplink;
  /// 0: the slowest that the hosts' interfaces say, or 10. PASSING_SWITCH_RATE, what the switch takes in from
  /// all hosts together: of a server with a single NIC, its rate; 0: 12, what a processor can sum.
  double link_rate = 0;
  double switch_rate = 0;
  std::size_t shared_bytes = 64 << 20;  ///< PASSING_SHARED_BYTES: of memory that this rank shares with others
                                        ///< of its host; larger tensors go in pieces
  std::uint32_t slots =
      0;  ///< PASSING_SLOTS: per lane, a power of two; 0: 256 over all lanes, fewer at a large MTU

  bool quiet = false;  ///< PASSING_QUIET, 0 or 1: no lines on standard error about what is waited for while
                       ///< ranks meet and join the switch

  /// From PASSING_*, then torchrun, Open MPI, Slurm and PMI (MPICH), in this order.
  PASSING_API static Expected<Config> from_environment();
  /// The same for who knows its rank already, as in a torch process group: only the other settings are read.
  PASSING_API static Expected<Config> from_environment(std::uint32_t rank, std::uint32_t size);
  /// One sentence naming the setting, its value and its range.
  PASSING_API Expected<void> validate() const;
};

/// The strategies there are: docs/communicator.md.
PASSING_API std::vector<std::string> strategies();

}  // namespace passing
