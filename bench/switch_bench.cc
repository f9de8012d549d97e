// The whole path over loopback sockets, in one process: switch, controller and members as threads.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <barrier>
#include <thread>

#include "controller/server.h"
#include "dataplane/userspace/userspace.h"
#include "net/member.h"

namespace passing {
namespace {

void switch_all_reduce(benchmark::State& state) {
  const auto members = static_cast<std::uint32_t>(state.range(0));
  const auto elements = static_cast<std::size_t>(state.range(1));
  auto dataplane =
      std::move(*dataplane::UserspaceDataplane::start({.listen = *net::parse_address("127.0.0.1:0"),
                                                       .threads = 1,
                                                       .capabilities = {.elements = 352, .slots = 4096},
                                                       .segmentation = state.range(2) != 0}));
  controller::Registry registry(*dataplane, {});
  auto server = std::move(*controller::Server::start(registry, *dataplane, {.host = "127.0.0.1", .port = 0}));
  const std::string address = "127.0.0.1:" + std::to_string(server->port());

  // Every iteration is one all-reduce on every member; the others run as long as member 0 does.
  std::barrier turn(members);
  bool more = true;
  const auto take_part = [&](std::uint32_t rank) {
    auto member = std::move(*net::Member::join({.controller = address,
                                                .job = "bench",
                                                .token = "a token for the bench",
                                                .size = members,
                                                .rank = rank,
                                                .segmentation = state.range(2) != 0}));
    const std::vector<float> in(elements, 0.5F);
    std::vector<float> out(elements);
    const auto reduce = [&] {
      PASSING_ASSERT(member->submit({.elements = elements,
                                     .input = in.data(),
                                     .output = out.data(),
                                     .deadline = net::monotonic_now() + 10 * kSecond}));
      PASSING_ASSERT(member->wait().outcome);
    };
    if (rank == 0) {
      for (auto _ : state) {
        turn.arrive_and_wait();
        reduce();
      }
      more = false;
      turn.arrive_and_wait();
    } else {
      for (turn.arrive_and_wait(); more; turn.arrive_and_wait()) reduce();
    }
    PASSING_ASSERT(member->leave(10 * kSecond));
  };
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  std::vector<std::thread> others;
  for (std::uint32_t rank = 1; rank < members; ++rank) others.emplace_back(take_part, rank);
  take_part(0);
  for (std::thread& each : others) each.join();
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  const double cpu =
      seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) - seconds(before.ru_stime);
  const double packets = static_cast<double>(dataplane->totals().counters.packets_in);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(4 * elements));
  // CPU of the whole process for a packet in and its result out, at switch and member together.
  state.counters["cpu_ns_per_packet"] = 1e9 * cpu / packets;
  state.counters["system_calls_per_packet"] = static_cast<double>(dataplane->totals().system_calls) / packets;
}
BENCHMARK(switch_all_reduce)
    ->ArgNames({"members", "elements", "gso"})
    ->Args({2, 1'000, 1})
    ->Args({2, 1'000'000, 1})
    ->Args({4, 4'000'000, 1})
    ->Args({4, 4'000'000, 0})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace passing
