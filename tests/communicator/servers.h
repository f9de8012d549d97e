// Parameter servers in this process, jobs that use them, and visitors at their desks.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "communicator/world.h"
#include "net/desk.h"
#include "passing/passing.h"
#include "server/server.h"

namespace passing::test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ServerPtr = std::unique_ptr<server::ParameterServer>;

inline ServerPtr serve(server::ParameterServer::Options options = {}) {
  if (options.listen.length == 0) options.listen = *net::parse_address("127.0.0.1:0");
  auto server = server::ParameterServer::start(std::move(options));
  EXPECT_TRUE(server) << server.error().message;
  return std::move(*server);
}

inline std::string at(const ServerPtr& server) { return net::to_string(server->address()); }

// A port where nobody listens, at this moment.
inline std::string free_address() {
  const auto server = serve();
  return at(server);
}

/// The ranks of one job as threads; or why each of them could not be made.
class Job {
 public:
  Job(const std::string& name, const std::string& servers, std::uint32_t size,
      const std::function<void(Config&)>& change = {})
      : ranks_(size), errors_(size) {
    Table table(size);
    const auto begin = steady_clock::now();
    parallel(size, [&](std::uint32_t rank) {
      Config config;
      config.rank = rank;
      config.size = size;
      config.strategy = "ps";
      config.job = name;
      config.host = "host-" + std::to_string(rank / 2);
      config.exchange = table.exchange(rank);
      config.servers = servers;
      config.timeout = config.create_timeout = seconds(20);
      if (change) change(config);
      auto made = Communicator::create(config);
      if (made) {
        ranks_[rank].emplace(std::move(*made));
      } else {
        errors_[rank] = made.error();
      }
    });
    time_ = steady_clock::now() - begin;
  }
  ~Job() {
    parallel(size(), [this](std::uint32_t rank) { ranks_[rank].reset(); });
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  steady_clock::duration time() const { return time_; }
  const std::string& message(std::uint32_t rank) const { return errors_[rank].message; }

  /// Everyone has the same trouble: one sentence, with all of `words`.
  void expect_refused(ErrorCode code, const std::vector<std::string>& words) {
    for (std::uint32_t r = 0; r < size(); ++r) {
      EXPECT_FALSE(ranks_[r]) << "rank " << r;
      EXPECT_EQ(errors_[r].code, code) << errors_[r].message;
      EXPECT_EQ(errors_[r].message.find('\n'), std::string::npos) << errors_[r].message;
      for (const std::string& each : words)
        EXPECT_NE(errors_[r].message.find(each), std::string::npos) << each << ": " << errors_[r].message;
    }
  }

  /// Runs `body` for all ranks at the same time.
  void run(const std::function<void(Communicator&)>& body) {
    for (std::uint32_t r = 0; r < size(); ++r) ASSERT_TRUE(ranks_[r]) << errors_[r].message;
    parallel(size(), [&](std::uint32_t rank) { body(*ranks_[rank]); });
  }

 private:
  std::vector<std::optional<Communicator>> ranks_;
  std::vector<Error> errors_;
  steady_clock::duration time_{};
};

// Several chunks for each server; each sum is right only for this many ranks and this salt.
inline void expect_sum(Communicator& comm, int salt = 0) {
  std::vector<std::int32_t> data(100'001);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::int32_t>(i) + static_cast<std::int32_t>(comm.rank()) + salt;
  const auto ended = comm.all_reduce(data.data(), data.data(), data.size(), DataType::int32).wait();
  ASSERT_TRUE(ended) << ended.error().message;
  const auto ranks = static_cast<std::int32_t>(comm.size());
  for (std::size_t i = 0; i < data.size(); ++i)
    ASSERT_EQ(data[i], ranks * (static_cast<std::int32_t>(i) + salt) + ranks * (ranks - 1) / 2) << i;
}

inline void expect_sums(Job& job) {
  job.run([](Communicator& comm) { expect_sum(comm); });
}

inline void with_short_patience(Config& config) { config.create_timeout = milliseconds(300); }

/// Someone at the desk who is not a communicator.
class Visitor {
 public:
  explicit Visitor(const ServerPtr& server) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(descriptor_, server->address().get(), server->address().length), 0);
  }
  ~Visitor() { leave(); }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  void say(const std::string& bytes) const {
    EXPECT_EQ(::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// What comes until the other end closes.
  std::string hear_all() const {
    std::string all;
    char data[4096];
    ssize_t got = 0;
    while ((got = ::recv(descriptor_, data, sizeof data, 0)) > 0)
      all.append(data, static_cast<std::size_t>(got));
    EXPECT_TRUE(got == 0 || errno == ECONNRESET) << "nobody closes: " << std::strerror(errno);
    return all;
  }
  /// The next answer.
  net::Answer hear() const {
    std::uint32_t length = 0;
    EXPECT_EQ(::recv(descriptor_, &length, 4, MSG_WAITALL), 4);
    std::string message(length, '\0');
    EXPECT_EQ(::recv(descriptor_, message.data(), length, MSG_WAITALL), static_cast<ssize_t>(length));
    return net::Answer::decode(message).value_or(net::Answer{.text = "cannot be read"});
  }
  void leave() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

}  // namespace passing::test
