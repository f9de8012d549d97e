// Our communicator among the peers; and, as `peer_passing idle SECONDS`, what it costs without work.
// PASSING_STRATEGY and the launcher's variables say how: see include/passing/config.h. PEER_ALLOCATED=1 takes
// data from Communicator::allocate().
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "passing/communicator.h"
#include "peer.h"

namespace {

int complain(const passing::Error& error) {
  fmt::print("{{\"ok\": false, \"code\": \"{}\"}}\n", passing::to_string(error.code));
  fmt::print(stderr, "peer_passing: {}\n", error.message);
  return peer::kFailed;
}

/// Memory that a communicator gives. What it refuses ends the process with its reason.
class Allocated : public std::pmr::memory_resource {
 public:
  explicit Allocated(passing::Communicator& comm) : comm_(comm) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override {
    auto made = comm_.allocate(bytes);
    if (!made) std::exit(complain(made.error()));
    return *made;
  }
  void do_deallocate(void* data, std::size_t, std::size_t) override { comm_.free(data); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  passing::Communicator& comm_;
};

/// Shared memory that this process has touched, whoever owns it.
long shared_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long value = 0;
    if (word == "RssShmem:" && status >> value) return value;
  }
  return -1;
}

int idle(double wait) {
  auto comm = passing::Communicator::from_environment();
  if (!comm) return complain(comm.error());
  std::vector<float> data(1000, 1);
  if (auto ended = comm->all_reduce(data.data(), data.data(), data.size(), passing::DataType::float32).wait();
      !ended)
    return complain(ended.error());
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  const auto threads = std::distance(begin(tasks), end(tasks)) - 1;  // this one is not the communicator's
  const double before = peer::cpu_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(wait));
  const double used = peer::cpu_seconds() - before;
  if (auto ended = comm->barrier().wait(); !ended) return complain(ended.error());
  fmt::print("{{\"ok\": true, \"threads\": {}, \"cpu_percent\": {}}}\n", threads, 100 * used / wait);
  return 0;
}

passing::Operation start(passing::Communicator& comm, const peer::Job& job, peer::Data& data) {
  constexpr auto kType = passing::DataType::float32;
  const float* in = data.input.data();
  float* out = data.output.data();
  switch (job.collective) {
    case peer::Collective::all_reduce: break;
    case peer::Collective::broadcast: return comm.broadcast(out, job.elements, kType, 0);
    case peer::Collective::all_gather: return comm.all_gather(out + job.own(), out, job.part, kType);
    case peer::Collective::reduce_scatter: return comm.reduce_scatter(in, out, job.part, kType);
    case peer::Collective::all_to_all: return comm.all_to_all(in, out, job.part, kType);
  }
  return comm.all_reduce(out, out, job.elements, kType);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "idle") return idle(std::atof(argv[2]));
  peer::Job job = peer::parse(argc, argv);
  auto made = passing::Communicator::from_environment();
  if (!made) return complain(made.error());
  passing::Communicator& comm = *made;
  job.take_place(comm.rank(), comm.size());

  Allocated allocated(comm);
  const char* allocate = std::getenv("PEER_ALLOCATED");
  const bool ordinary = allocate == nullptr || std::string_view(allocate) != "1";
  auto data = peer::make_data(job, ordinary ? std::pmr::get_default_resource() : &allocated);
  std::vector<std::optional<passing::Operation>> under_way(data.size());
  std::optional<passing::Error> error;
  const auto finish = [&](std::size_t i) {
    if (auto ended = under_way[i]->wait(); !ended) error = ended.error();
    return !error.has_value();
  };
  const auto result = peer::measure(
      job, data, [&](std::size_t i) { under_way[i] = start(comm, job, data[i]); }, finish,
      [&](std::size_t i) { return data[i].output.data(); });
  if (error) return complain(*error);
  const long shared = shared_kilobytes();
  if (auto ended = comm.barrier().wait(); !ended) return complain(ended.error());
  return peer::report(job, result, comm.strategy(), fmt::format(", \"shared_kb\": {}", shared));
}
