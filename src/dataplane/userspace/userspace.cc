#include "dataplane/userspace/userspace.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"

namespace passing::dataplane {
namespace {

// How many trains to take from the socket before results go out: batches without making anyone wait.
constexpr std::size_t kBurst = 16;

const numeric::Kernels& echo_kernels() {
  static const numeric::Kernels table = [] {
    numeric::Kernels copy = numeric::kernels();
    copy.add_i32 = [](void*, const void*, std::size_t) {};
    return copy;
  }();
  return table;
}

}  // namespace

// One thread with its socket and aggregator. Commands are run by the thread itself, between packets.
class UserspaceDataplane::Worker {
 public:
  Worker(net::UdpSocket socket, const Capabilities& capabilities, bool echo)
      : socket_(std::move(socket)),
        aggregator_(capabilities, echo ? echo_kernels() : numeric::kernels()),
        wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    PASSING_ASSERT(wake_ >= 0);
    thread_ = std::thread([this] { loop(); });
  }

  ~Worker() {
    stop_ = true;
    ring();
    thread_.join();
    ::close(wake_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Runs `command` on the worker's thread and returns when it is done.
  void run(const std::function<void(Worker&)>& command) {
    std::promise<void> done;
    {
      const MutexLock lock(mutex_);
      commands_.push_back([&] {
        command(*this);
        done.set_value();
      });
    }
    ring();
    done.get_future().wait();
  }

  Aggregator& aggregator() { return aggregator_; }
  const net::UdpSocket& socket() const { return socket_; }
  std::unordered_map<std::uint32_t, std::vector<net::SocketAddress>>& destinations() { return destinations_; }

 private:
  void ring() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_, &one, sizeof one));
  }

  void loop() {
    pollfd sources[2] = {{socket_.descriptor(), POLLIN, 0}, {wake_, POLLIN, 0}};
    while (!stop_) {
      if (::poll(sources, 2, -1) < 0) continue;
      if (sources[1].revents != 0) run_commands();
      if (sources[0].revents != 0) {
        socket_.receive(kBurst, [this](const net::UdpSocket::Source& from,
                                       std::span<const std::byte> packet) { handle(from, packet); });
        flush();
      }
    }
  }

  void run_commands() {
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake_, &count, sizeof count));
    std::vector<std::function<void()>> commands;
    {
      const MutexLock lock(mutex_);
      commands.swap(commands_);
    }
    for (const auto& command : commands) command();
  }

  void handle(const net::UdpSocket::Source& from, std::span<const std::byte> packet) {
    // A train takes as many packets as really fit: room for the largest possible one would cost a tenth.
    std::byte* out = train_.room(largest_answer_);
    if (out == nullptr) {
      flush();
      out = train_.room(largest_answer_);
    }
    const Verdict verdict = aggregator_.handle(from.address, packet, out);
    if (verdict.send == Verdict::Send::nothing) return;
    if (verdict.send == Verdict::Send::sender) {
      socket_.send_train(&from.socket, {out, verdict.bytes}, verdict.bytes);
      return;
    }
    const std::uint8_t lane = std::to_integer<std::uint8_t>(packet[34]);
    if (!train_.empty() && (train_job_ != verdict.job->spec.job || train_lane_ != lane))
      start_again(out, verdict.bytes);
    train_job_ = verdict.job->spec.job;
    train_lane_ = lane;
    if (!train_.add(verdict.bytes)) {
      start_again(out, verdict.bytes);
      train_.add(verdict.bytes);
    }
  }

  // Sends the train; the packet at `out`, which does not belong to it, begins the next one.
  void start_again(const std::byte* out, std::size_t bytes) {
    flush();
    std::memmove(train_.room(bytes), out, bytes);
  }

  void flush() {
    if (train_.empty()) return;
    const Job* job = aggregator_.jobs().find(train_job_);
    const auto found = destinations_.find(train_job_);
    if (job != nullptr && found != destinations_.end()) {
      for (std::uint16_t m = 0; m < job->spec.members; ++m) {
        if ((job->departed >> m & 1) != 0) continue;
        socket_.send_train(&found->second[std::size_t{m} * job->spec.lanes + train_lane_], train_.bytes(),
                           train_.packet_size());
      }
    }
    train_.clear();
  }

  net::UdpSocket socket_;
  Aggregator aggregator_;
  const std::size_t largest_answer_ =
      wire::packet_bytes(std::max<std::size_t>(aggregator_.capabilities().elements, PASSING_REPORT_WORDS));
  std::unordered_map<std::uint32_t, std::vector<net::SocketAddress>> destinations_;  // by job
  net::Train train_;  // results for everyone, of one job and lane
  std::uint32_t train_job_ = 0;
  std::uint8_t train_lane_ = 0;

  int wake_;
  std::atomic<bool> stop_ = false;
  Mutex mutex_;
  std::vector<std::function<void()>> commands_ PASSING_GUARDED_BY(mutex_);
  std::thread thread_;
};

namespace {

// One for each thread, on ports in a row.
Expected<std::vector<net::UdpSocket>> open_sockets(const UserspaceDataplane::Options& options) {
  std::vector<net::UdpSocket> sockets;
  net::SocketAddress address = options.listen;
  for (unsigned t = 0; t < options.threads; ++t) {
    auto socket = net::UdpSocket::open(
        address, {.receive_buffer = 8U << 20, .send_buffer = 4U << 20, .segmentation = options.segmentation});
    if (!socket) return tl::unexpected(socket.error());
    address.set_port(static_cast<std::uint16_t>(socket->local().port() + 1));
    sockets.push_back(std::move(*socket));
  }
  return sockets;
}

}  // namespace

Expected<std::unique_ptr<UserspaceDataplane>> UserspaceDataplane::start(const Options& options) {
  std::unique_ptr<UserspaceDataplane> dataplane(new UserspaceDataplane(options));
  auto opened = open_sockets(options);
  // Any port will do, but the next one may be someone else's.
  for (int again = 0; !opened && options.listen.port() == 0 && again < 16; ++again)
    opened = open_sockets(options);
  if (!opened) return tl::unexpected(opened.error());
  std::vector<net::UdpSocket> sockets = std::move(*opened);
  dataplane->options_.listen = sockets.front().local();
  for (unsigned t = 0; t < options.threads; ++t) {
    Capabilities capabilities = options.capabilities;
    capabilities.lane_step = options.threads;
    capabilities.lane_first = t;
    capabilities.slots = options.capabilities.slots / options.threads;
    dataplane->workers_.push_back(
        std::make_unique<Worker>(std::move(sockets[t]), capabilities, options.echo));
  }
  return dataplane;
}

UserspaceDataplane::UserspaceDataplane(const Options& options) : options_(options) {}
UserspaceDataplane::~UserspaceDataplane() = default;

Expected<void> UserspaceDataplane::install(JobSpec spec, const std::vector<net::SocketAddress>& members) {
  spec.addresses.clear();
  for (const net::SocketAddress& each : members) spec.addresses.push_back(net::to_protocol(each));
  Expected<void> result;
  for (auto& worker : workers_) {
    worker->run([&](Worker& w) {
      const auto installed = w.aggregator().jobs().install(spec);
      if (installed) {
        w.destinations()[spec.job] = members;
      } else {
        result = tl::unexpected(installed.error());
      }
    });
    if (!result) break;
  }
  if (!result && result.error().code == ErrorCode::no_capacity) {
    // Some threads have it: take it back.
    for (std::uint16_t m = 0; m < spec.members; ++m) depart(spec.job, spec.epoch, m);
  }
  return result;
}

void UserspaceDataplane::depart(std::uint32_t job, std::uint32_t epoch, std::uint16_t member) {
  for (auto& worker : workers_) {
    worker->run([&](Worker& w) {
      w.aggregator().jobs().depart(job, epoch, member);
      if (w.aggregator().jobs().find(job) == nullptr) w.destinations().erase(job);
    });
  }
}

std::vector<JobProgress> UserspaceDataplane::progress(std::uint32_t job) {
  std::vector<JobProgress> result;
  for (auto& worker : workers_) {
    worker->run([&](Worker& w) {
      if (const Job* found = w.aggregator().jobs().find(job))
        result.push_back(w.aggregator().progress(*found));
    });
  }
  return result;
}

Totals UserspaceDataplane::totals() {
  Totals totals;
  for (auto& worker : workers_) {
    worker->run([&](Worker& w) {
      totals.counters += w.aggregator().counters();
      totals.system_calls += w.socket().system_calls();
      totals.slots += w.aggregator().capabilities().slots;
      totals.free_slots += w.aggregator().jobs().free_slots();
      totals.free_by_thread.push_back(w.aggregator().jobs().free_slots());
      totals.send_failures += w.socket().send_failures();
    });
  }
  return totals;
}

net::SocketAddress UserspaceDataplane::lane_address(std::uint32_t lane) const {
  return workers_[lane % workers_.size()]->socket().local();
}

bool UserspaceDataplane::segmentation() const { return workers_.front()->socket().segmentation(); }

std::vector<std::string> UserspaceDataplane::warnings() const {
  std::vector<std::string> warnings;
  // All sockets are alike: one warning is enough.
  if (const std::string& text = workers_.front()->socket().buffer_warning(); !text.empty())
    warnings.push_back(text);
  return warnings;
}

}  // namespace passing::dataplane
