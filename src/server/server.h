// A parameter server: the desk where ranks enrol, and the groups that it serves. docs/server.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "net/desk.h"
#include "net/mesh.h"
#include "server/service.h"

namespace passing::server {

/// Serves one job at a time, with all its communicators, until destroyed.
class ParameterServer {
 public:
  struct Options {
    net::SocketAddress listen;
    std::uint32_t index = 0;                      ///< which range of keys,
    std::uint32_t of = 1;                         ///< of so many
    std::string token;                            ///< what ranks must know; empty: nothing
    std::function<void(const std::string&)> log;  ///< from any thread
  };

  static Expected<std::unique_ptr<ParameterServer>> start(Options options);
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  /// Where the desk is.
  const net::SocketAddress& address() const { return address_; }

 private:
  // A connection; of a rank as soon as it has enrolled.
  struct Desk {
    int descriptor = -1;
    Time since = 0;
    std::string heard;
    std::optional<net::Enrolment> rank;
    bool content = false;  // with all its servers
    bool closed = false;
  };
  // The ranks of one communicator.
  struct Group {
    std::string job;
    std::uint32_t size = 0;
    std::map<std::uint32_t, Desk*> desks;  // by rank
    std::unique_ptr<net::Mesh> mesh;       // until all are there,
    std::unique_ptr<Service> service;      // which then has it
  };

  explicit ParameterServer(Options options) : options_(std::move(options)) {}
  Expected<void> listen();
  void run();
  int until_next_look() const;
  void accept_some();
  bool somebody_waits() const;
  std::size_t strangers() const;
  std::size_t most_strangers() const;
  bool make_room();
  void look_at_clock();
  void read(Desk& desk);
  void on_message(Desk& desk, const std::string& message);
  void on_enrolment(Desk& desk, net::Enrolment rank);
  std::optional<std::string> why_not(const net::Enrolment& rank) const;
  bool knows_token(const net::Enrolment& rank) const;
  void complete(std::uint64_t id, Group& group);
  void on_late(std::uint64_t id, const Group& group);
  void dissolve(std::uint64_t id, const net::Answer& why);
  void close(Desk& desk, const std::string& why, ErrorCode code = ErrorCode::peer_lost);
  void turn_away(Desk& desk, std::uint64_t net::Refused::*reason);
  void count(std::uint64_t net::Refused::*reason);
  void log_strangers() const;
  void say(Desk& desk, const net::Answer& answer);

  const Options options_;
  net::SocketAddress address_;
  int listener_ = -1;
  int wake_ = -1;
  std::list<Desk> desks_;  // the oldest first
  Time listen_again_ = 0;  // 0: it listens
  net::Refused refused_;   // connections without a rank
  std::map<std::uint64_t, Group> groups_;
  std::string holder_;                                           // the job that they are parts of
  std::deque<std::pair<std::uint64_t, net::Answer>> dissolved_;  // groups that will not be, the last ones
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace passing::server
