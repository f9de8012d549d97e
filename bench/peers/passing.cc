// Our communicator as a peer among the others: the same loop, arguments and report as theirs.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "passing/communicator.h"

namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int complain(const passing::Error& error) {
  fmt::print("{{\"ok\": false, \"code\": \"{}\"}}\n", passing::to_string(error.code));
  fmt::print(stderr, "peer_passing: {}\n", error.message);
  return 1;
}

// What a communicator costs that has nothing to do.
int idle(double wait) {
  auto comm = passing::Communicator::from_environment();
  if (!comm) return complain(comm.error());
  std::vector<float> data(1000, 1);
  if (auto ended = comm->all_reduce(data.data(), data.data(), data.size(), passing::DataType::float32).wait();
      !ended)
    return complain(ended.error());
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  const auto threads = std::distance(begin(tasks), end(tasks)) - 1;  // this one is not the communicator's
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(wait));
  const double used = cpu_seconds() - before;
  if (auto ended = comm->barrier().wait(); !ended) return complain(ended.error());
  fmt::print("{{\"ok\": true, \"threads\": {}, \"cpu_percent\": {}}}\n", threads, 100 * used / wait);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "idle") return idle(std::atof(argv[2]));
  if (argc != 5) {
    fmt::print(stderr,
               "usage: peer_passing ELEMENTS REPEAT WARM_UP IN_FLIGHT, or peer_passing idle SECONDS\n"
               "PASSING_STRATEGY and the launcher's variables say the rest: see include/passing/config.h\n");
    return 2;
  }
  const std::size_t elements = std::strtoull(argv[1], nullptr, 10);
  const int repeat = std::atoi(argv[2]);
  const int warm_up = std::atoi(argv[3]);
  const std::size_t in_flight = std::strtoull(argv[4], nullptr, 10);

  auto made = passing::Communicator::from_environment();
  if (!made) return complain(made.error());
  passing::Communicator& comm = *made;

  // Operations in flight must not share a tensor.
  std::vector<std::vector<float>> tensors(in_flight, std::vector<float>(elements));
  std::deque<std::pair<passing::Operation, double>> pending;
  std::vector<double> seconds;
  double cpu = 0;
  double begin = 0;
  const auto fill = [&](std::vector<float>& tensor) {
    std::fill(tensor.begin(), tensor.end(), static_cast<float>(comm.rank() + 1));
  };
  for (auto& each : tensors) fill(each);
  int ended = 0;
  const auto finish_one = [&]() -> passing::Expected<void> {
    auto result = pending.front().first.wait();
    if (++ended > warm_up) seconds.push_back(now() - pending.front().second);
    pending.pop_front();
    return result;
  };
  const int all = warm_up + repeat;
  for (int i = 0; i < all; ++i) {
    while (pending.size() == in_flight || (i == warm_up && !pending.empty())) {
      if (auto result = finish_one(); !result) return complain(result.error());
    }
    if (i == warm_up) {
      cpu = cpu_seconds();
      begin = now();
    }
    auto& tensor = tensors[static_cast<std::size_t>(i) % in_flight];
    // As the others: no refill while measuring; the last is filled to be checked.
    if (i + 1 == all) fill(tensor);
    pending.emplace_back(comm.all_reduce(tensor.data(), tensor.data(), elements, passing::DataType::float32),
                         now());
  }
  while (!pending.empty()) {
    if (auto result = finish_one(); !result) return complain(result.error());
  }
  const double total = now() - begin;
  const double used = cpu_seconds() - cpu;
  const auto& last = tensors[static_cast<std::size_t>(all - 1) % in_flight];
  const auto expected = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
  const bool right = std::all_of(last.begin(), last.end(), [&](float value) { return value == expected; });
  if (auto result = comm.barrier().wait(); !result) return complain(result.error());
  std::sort(seconds.begin(), seconds.end());
  fmt::print(
      "{{\"ok\": {}, \"rank\": {}, \"bytes\": {}, \"repeat\": {}, \"median_seconds\": {}, \"total_seconds\": "
      "{}, "
      "\"cpu_seconds\": {}, \"strategy\": \"{}\", \"verified\": true}}\n",
      right, comm.rank(), 4 * elements, repeat, seconds[seconds.size() / 2], total, used, comm.strategy());
  return right ? 0 : 1;
}
