// How the ranks of a job take parameter servers: docs/server.md. Every rank keeps a connection to the desk of
// every server for as long as it uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "net/address.h"

namespace passing::net {

/// From rank to server, once, at the beginning of a connection.
struct Enrolment {
  std::string version;
  std::string job;
  std::string token;
  std::string name;         ///< of the rank, for people
  std::string address;      ///< of its mesh
  std::uint64_t group = 0;  ///< which communicator of the job
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  bool pushes = true;  ///< and pulls; otherwise another rank of its host does

  std::string encode() const;
  static std::optional<Enrolment> decode(const std::string& data);
};

/// From server to rank: accepted and then, when all ranks are there, ready; or refused at any time. Also from
/// rank to server: refused, when another server has been no good; late, when it has waited long enough for
/// the other ranks: it is then refused by the names of those.
struct Answer {
  enum class Type : std::uint8_t { accepted = 1, ready, refused, late };
  Type type = Type::refused;
  ErrorCode code = ErrorCode::disagreement;  ///< refused: what kind of trouble,
  std::string text;                          ///< and a sentence about it
  std::string address;                       ///< accepted: of the server's mesh
  std::uint32_t index = 0;
  std::uint32_t of = 0;

  std::string encode() const;
  static std::optional<Answer> decode(const std::string& data);
};

/// On the wire a message has its length before it, in 4 bytes.
constexpr std::size_t kLongestDeskMessage = 4096;
std::string framed(const std::string& message);

/// A server, as the mesh knows it.
struct Place {
  std::string name;  ///< "server 0 at 10.0.0.9:9100"
  SocketAddress address;
};

/// A rank's connections to the desks of all servers. Closing them gives the servers free.
class Enrolled {
 public:
  /// `servers`: HOST:PORT of each, in any order. Returns when all ranks have enrolled.
  static Expected<Enrolled> enrol(const std::vector<std::string>& servers, const Enrolment& own,
                                  Duration timeout, bool quiet = false);
  Enrolled(Enrolled&& other) noexcept = default;
  Enrolled& operator=(Enrolled&&) = delete;
  ~Enrolled();

  /// By the range of keys that they own.
  const std::vector<Place>& servers() const { return servers_; }

 private:
  struct Desk {
    std::string where;
    int descriptor = -1;
    Answer answer;
  };

  Enrolled() = default;
  Expected<void> all(const Enrolment& own, Time deadline, bool quiet);
  static Expected<Answer> hear_first(Desk& desk, const Enrolment& own, Time deadline);
  Expected<void> check() const;
  Expected<void> await_others(const Enrolment& own, Time deadline, bool quiet) const;

  std::vector<Desk> desks_;
  std::vector<Place> servers_;
};

}  // namespace passing::net
