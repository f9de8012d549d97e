// All-reduces among the processes of one host, beside a plain copy of the same bytes. GB/s are the bytes of
// the tensor over the median time of an operation (float32, sum, in place): docs/inhost.md section 6.
//
//   inhost_bench [RANKS,...] [KILOBYTES,...] [SLOT_BYTES]
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "inhost/host.h"

namespace {

using namespace passing;

constexpr std::size_t kMostRanks = 64;
constexpr std::size_t kMostSizes = 32;

/// Where the processes find each other, and what they measured.
struct Board {
  std::atomic<std::size_t> open{0};
  char door[kMostRanks][64] = {};
  double ordinary[kMostSizes] = {};
  double allocated[kMostSizes] = {};
};

std::vector<std::size_t> numbers(const std::string& text) {
  std::vector<std::size_t> list;
  std::stringstream in(text);
  for (std::string each; std::getline(in, each, ',');)
    list.push_back(std::strtoull(each.c_str(), nullptr, 10));
  return list;
}

std::size_t rounds(std::size_t bytes) { return std::clamp<std::size_t>((256 << 20) / bytes, 7, 1000); }

template <class Work>
double median_seconds(std::size_t bytes, Work work) {
  std::vector<double> seconds;
  for (std::size_t i = 0; i < rounds(bytes) + 3; ++i) {
    const Time before = inhost::now();
    work();
    if (i >= 3) seconds.push_back(static_cast<double>(inhost::now() - before) / 1e9);
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

void check(const Expected<void>& ended) {
  if (ended) return;
  fmt::print(stderr, "{}\n", ended.error().message);
  _exit(1);
}

double all_reduce(inhost::Host& host, float* data, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  std::fill_n(data, count, 0.0F);
  const double time = median_seconds(bytes, [&] {
    check(host.all_reduce(
        {.input = data, .output = data, .count = count, .deadline = inhost::now() + 60 * kSecond}));
  });
  return time;
}

int run(Board& board, std::uint32_t rank, std::uint32_t ranks, const std::vector<std::size_t>& sizes,
        std::size_t slot_bytes) {
  auto door = inhost::Door::open();
  if (!door) return 1;
  std::strncpy(board.door[rank], door->name().c_str(), sizeof board.door[rank] - 1);
  ++board.open;
  while (board.open < ranks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::vector<std::uint32_t> all;
  for (std::uint32_t r = 0; r < ranks; ++r) all.push_back(r);
  const std::size_t largest = *std::max_element(sizes.begin(), sizes.end());
  auto host = inhost::Host::join(
      *door, {.ranks = all,
              .rank = rank,
              .leader = board.door[0],
              .settings = {.shared_bytes = (64 << 20) + largest, .slot_bytes = slot_bytes}});
  if (!host) {
    fmt::print(stderr, "{}\n", host.error().message);
    return 1;
  }
  std::vector<float> ordinary(largest / sizeof(float));
  auto shared = (*host)->allocate(largest);
  if (!shared) return 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double a = all_reduce(**host, ordinary.data(), sizes[i]);
    const double b = all_reduce(**host, static_cast<float*>(*shared), sizes[i]);
    if (rank == 0) {
      board.ordinary[i] = a;
      board.allocated[i] = b;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto ranks = numbers(argc > 1 ? argv[1] : "2,4,16");
  auto sizes = numbers(argc > 2 ? argv[2] : "1,16,256,1024,16384,65536");
  const std::size_t slot_bytes = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  if (ranks.empty() || sizes.empty() || sizes.size() > kMostSizes ||
      *std::min_element(ranks.begin(), ranks.end()) < 1 ||
      *std::max_element(ranks.begin(), ranks.end()) > kMostRanks ||
      *std::min_element(sizes.begin(), sizes.end()) < 1) {
    fmt::print(stderr, "usage: {} [RANKS,...] [KILOBYTES,...] [SLOT_BYTES]\n", argv[0]);
    return 2;
  }
  for (std::size_t& each : sizes) each <<= 10;
  fmt::print("{:>5} {:>9} {:>10} {:>10} {:>10} {:>12} {:>12}\n", "ranks", "KB", "memcpy", "ordinary",
             "allocated", "ordinary us", "allocated us");
  for (const std::size_t n : ranks) {
    void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto& board = *new (memory) Board;
    std::vector<pid_t> children;
    for (std::size_t r = 0; r < n; ++r) {
      children.push_back(fork());
      if (children.back() == 0)
        _exit(run(board, static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(n), sizes, slot_bytes));
    }
    bool good = true;
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (!good) return 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<char> from(sizes[i], 1);
      std::vector<char> to(sizes[i], 2);
      const double copy = median_seconds(sizes[i], [&] { std::memcpy(to.data(), from.data(), sizes[i]); });
      const auto rate = [&](double seconds) { return static_cast<double>(sizes[i]) / seconds / 1e9; };
      fmt::print("{:>5} {:>9} {:>10.2f} {:>10.2f} {:>10.2f} {:>12.1f} {:>12.1f}\n", n, sizes[i] >> 10,
                 rate(copy), rate(board.ordinary[i]), rate(board.allocated[i]), board.ordinary[i] * 1e6,
                 board.allocated[i] * 1e6);
    }
    munmap(memory, sizeof(Board));
  }
  return 0;
}
