// Gloo's all-reduce in the lab: the first opponent. Rank and size come from the environment, rendezvous
// goes through a directory. Prints one JSON line like `passing all-reduce --json`.
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

int from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) {
    fmt::print(stderr, "peer_gloo: {} is not set: run it by `passing lab run`\n", name);
    std::exit(2);
  }
  return std::atoi(text);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "usage: peer_gloo STORE_DIRECTORY ELEMENTS REPEAT WARM_UP ring|bcube\n");
    return 2;
  }
  const int rank = from_environment("RANK");
  const int size = from_environment("WORLD_SIZE");
  const std::size_t elements = std::strtoull(argv[2], nullptr, 10);
  const int repeat = std::atoi(argv[3]);
  const int warm_up = std::atoi(argv[4]);
  const bool bcube = std::strcmp(argv[5], "bcube") == 0;

  gloo::transport::tcp::attr attributes;
  attributes.hostname = std::getenv("PASSING_HOST_IP");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(argv[1]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);

  std::vector<float> tensor(elements);
  std::vector<double> seconds;
  double cpu = 0;
  double begin = 0;
  double total = 0;
  bool right = true;
  for (int i = 0; i < warm_up + repeat; ++i) {
    // As `passing all-reduce --check-last`, no refill while measuring; the last is filled to be checked.
    if (i == 0 || i + 1 == warm_up + repeat)
      std::fill(tensor.begin(), tensor.end(), static_cast<float>(rank + 1));
    if (i == warm_up) {
      cpu = cpu_seconds();
      begin = now();
    }
    const double started = now();
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(bcube ? gloo::AllreduceOptions::Algorithm::BCUBE
                               : gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(tensor.data(), elements);
    options.setReduceFunction(
        [](void* out, const void* a, const void* b, size_t n) { gloo::sum<float>(out, a, b, n); });
    gloo::allreduce(options);
    if (i >= warm_up) seconds.push_back(now() - started);
    total = now() - begin;
    if (i + 1 < warm_up + repeat) continue;  // as `passing all-reduce --check-last`
    const auto expected = static_cast<float>(size * (size + 1) / 2);
    right =
        right && std::all_of(tensor.begin(), tensor.end(), [&](float value) { return value == expected; });
  }
  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
  std::sort(seconds.begin(), seconds.end());
  fmt::print(
      "{{\"ok\": {}, \"rank\": {}, \"bytes\": {}, \"repeat\": {}, \"median_seconds\": {}, \"total_seconds\": "
      "{}, "
      "\"cpu_seconds\": {}, \"verified\": true}}\n",
      right, rank, 4 * elements, repeat, seconds[seconds.size() / 2], total, cpu_seconds() - cpu);
  return right ? 0 : 1;
}
