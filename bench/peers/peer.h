// What the peers share: arguments, data whose right answer is known, the loop, the report. So that what is
// compared differs in nothing but the library.
//
// M is a tensor of ELEMENTS float32, and `bytes` of a report are its bytes. P ranks:
//   all_reduce      M in and out, in place, sum
//   broadcast       M from rank 0
//   all_gather      M out, M / P from each rank, in place: its part is already where it belongs
//   reduce_scatter  M in, M / P out, sum
//   all_to_all      M in, M out
#pragma once

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

namespace peer {

enum class Collective { all_reduce, broadcast, all_gather, reduce_scatter, all_to_all };
inline constexpr std::string_view kNames[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter",
                                              "all_to_all"};

/// Exit statuses.
inline constexpr int kFailed = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kAbsent = 3;

[[noreturn]] inline void refuse(const std::string& sentence) {
  fmt::print(stderr, "{}\n", sentence);
  std::exit(kBadInput);
}

/// The library does not offer what is asked for: that is a result too.
[[noreturn]] inline void absent(const std::string& sentence) {
  fmt::print("{{\"ok\": false, \"absent\": \"{}\"}}\n", sentence);
  std::fflush(stdout);
  std::exit(kAbsent);
}

struct Job {
  Collective collective = Collective::all_reduce;
  std::size_t elements = 0;
  std::size_t repeat = 1;
  std::size_t warm_up = 0;
  std::size_t in_flight = 1;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::size_t part = 0;  ///< M / P

  std::string_view name() const { return kNames[static_cast<std::size_t>(collective)]; }
  /// Where this rank's part of M begins.
  std::size_t own() const { return rank * part; }

  void take_place(std::uint32_t this_rank, std::uint32_t ranks) {
    rank = this_rank;
    size = ranks;
    part = elements / size;
    const bool in_parts = collective != Collective::all_reduce && collective != Collective::broadcast;
    if (in_parts && elements % size != 0)
      refuse(fmt::format("ELEMENTS is {}: {} needs a multiple of the number of ranks, {}", elements, name(),
                         size));
  }
};

inline std::size_t number(std::string_view what, std::string_view text, std::size_t least) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least)
    refuse(fmt::format("{} is '{}': must be a whole number, {} or more", what, text, least));
  return value;
}

inline Job parse(int argc, char** argv) {
  if (argc != 5 && argc != 6)
    refuse(fmt::format("usage: {} COLLECTIVE ELEMENTS REPEAT WARM_UP [IN_FLIGHT]\nCOLLECTIVE is one of {}",
                       argv[0], fmt::join(kNames, ", ")));
  const auto* found = std::find(std::begin(kNames), std::end(kNames), argv[1]);
  if (found == std::end(kNames))
    refuse(fmt::format("COLLECTIVE is '{}': must be one of {}", argv[1], fmt::join(kNames, ", ")));
  Job job;
  job.collective = static_cast<Collective>(found - std::begin(kNames));
  job.elements = number("ELEMENTS", argv[2], 1);
  job.repeat = number("REPEAT", argv[3], 1);
  job.warm_up = number("WARM_UP", argv[4], 0);
  if (argc == 6) job.in_flight = number("IN_FLIGHT", argv[5], 1);
  return job;
}

/// For those whose calls return when all is done.
inline void one_at_a_time(const Job& job) {
  if (job.in_flight != 1) absent("operations in flight: its calls wait");
}

/// PEER_ALGORITHM, where a library has more than one and no setting of its own for it.
inline std::string algorithm(const std::string& otherwise) {
  const char* text = std::getenv("PEER_ALGORITHM");
  return text != nullptr && *text != '\0' ? text : otherwise;
}

/// What one operation reads and writes: `input` only where it is not in place.
struct Data {
  explicit Data(std::pmr::memory_resource* where) : input(where), output(where) {}

  std::pmr::vector<float> input;
  std::pmr::vector<float> output;
};

/// Element `at` of a rank's M. Small integers, so sums are exact in any order; no two ranks or near places
/// alike, so that nothing passes at the wrong place.
inline float value(std::uint32_t rank, std::size_t at) { return static_cast<float>(1024 * rank + at % 1021); }

inline float sum(std::uint32_t ranks, std::size_t at) {
  return static_cast<float>(std::size_t{1024} * ranks * (ranks - 1) / 2 + ranks * (at % 1021));
}

/// Inputs as they should be; outputs as they must not stay. Buffers stay where they are when filled again.
inline void fill(const Job& job, Data& data) {
  const bool apart = job.collective == Collective::reduce_scatter || job.collective == Collective::all_to_all;
  data.input.resize(apart ? job.elements : 0);
  data.output.assign(job.collective == Collective::reduce_scatter ? job.part : job.elements, -1.0F);
  std::pmr::vector<float>& in = apart ? data.input : data.output;
  std::size_t first = 0;
  std::size_t last = job.elements;
  if (job.collective == Collective::all_gather) {
    first = job.own();
    last = first + job.part;
  }
  if (job.collective == Collective::broadcast && job.rank != 0) last = 0;
  for (std::size_t i = first; i < last; ++i) in[i] = value(job.rank, i);
}

/// Whether every element is what it should be.
inline bool right(const Job& job, const float* output) {
  const auto all = [&](std::size_t count, auto expected) {
    for (std::size_t i = 0; i < count; ++i) {
      if (output[i] != expected(i)) {
        fmt::print(stderr, "rank {}: element {} of {} is {}, not {}\n", job.rank, i, job.name(), output[i],
                   expected(i));
        return false;
      }
    }
    return true;
  };
  switch (job.collective) {
    case Collective::all_reduce: return all(job.elements, [&](std::size_t i) { return sum(job.size, i); });
    case Collective::broadcast: return all(job.elements, [&](std::size_t i) { return value(0, i); });
    case Collective::all_gather:
      return all(job.elements,
                 [&](std::size_t i) { return value(static_cast<std::uint32_t>(i / job.part), i); });
    case Collective::reduce_scatter:
      return all(job.part, [&](std::size_t i) { return sum(job.size, job.own() + i); });
    case Collective::all_to_all:
      return all(job.elements, [&](std::size_t i) {
        return value(static_cast<std::uint32_t>(i / job.part), job.own() + i % job.part);
      });
  }
  return false;
}

inline double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Of all processors of this machine, whatever they worked for.
inline double machine_seconds() {
  std::ifstream stat("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, interrupt = 0, soft = 0;
  stat >> name >> user >> nice >> system >> idle >> wait >> interrupt >> soft;
  return (user + nice + system + interrupt + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Result {
  bool right = false;
  double median = 0;
  double total = 0;
  double cpu = 0;
  double machine_cpu = 0;      ///< of everybody meanwhile
  std::size_t operations = 0;  ///< in all, also those that do not count
};

/// Operations in flight must not share data, and the last of these is for the operations that are checked.
/// `where` is the memory they lie in.
inline std::vector<Data> make_data(const Job& job,
                                   std::pmr::memory_resource* where = std::pmr::get_default_resource()) {
  std::vector<Data> data;
  data.reserve(job.in_flight + 1);
  while (data.size() <= job.in_flight) fill(job, data.emplace_back(where));
  return data;
}

/// How many operations may follow each other in place before sums of sums leave the range of a float.
inline std::size_t most_in_a_row(const Job& job) {
  if (job.collective != Collective::all_reduce || job.size == 1) return SIZE_MAX;
  const double bits_per_sum = std::log2(job.size);
  const double bits_left = 127 - std::log2(1024.0 * job.size * job.size);
  return job.in_flight * std::max<std::size_t>(1, static_cast<std::size_t>(bits_left / bits_per_sum));
}

inline std::size_t rows(std::size_t operations, std::size_t row) {
  return operations / row + (operations % row == 0 ? 0 : 1);
}

/// WARM_UP operations that do not count, then REPEAT in rows without a gap. Before each row, the clock
/// standing, one operation brings the ranks together, and is checked; so is the last of the row, on data of
/// its own. The others go on with what the previous one left. start(i) begins an operation on data[i];
/// finish(i) waits for it, and says whether it ended well; output(i) is where its result is.
template <class Start, class Finish, class Output>
Result measure(const Job& job, std::vector<Data>& data, Start start, Finish finish, Output output) {
  Result result;
  const std::size_t checked = job.in_flight;
  std::vector<double> seconds;
  std::deque<std::pair<std::size_t, double>> pending;
  const auto finish_one = [&] {
    const auto [which, begun] = pending.front();
    pending.pop_front();
    if (!finish(which)) return false;
    seconds.push_back(now() - begun);
    return true;
  };
  const auto run = [&](std::size_t count, bool check_last) {
    for (std::size_t i = 0; i < count; ++i) {
      if (pending.size() == job.in_flight && !finish_one()) return false;
      const std::size_t which = check_last && i + 1 == count ? checked : i % job.in_flight;
      pending.emplace_back(which, now());
      start(which);
    }
    while (!pending.empty()) {
      if (!finish_one()) return false;
    }
    return true;
  };
  const std::size_t row = most_in_a_row(job);
  bool all_right = true;
  const auto check = [&] {
    all_right = right(job, output(checked)) && all_right;
    fill(job, data[checked]);
  };
  const auto together = [&] {
    for (std::size_t i = 0; i < checked; ++i) fill(job, data[i]);
    start(checked);
    if (!finish(checked)) return false;
    check();
    return true;
  };
  for (std::size_t left = job.warm_up; left > 0; left -= std::min(left, row)) {
    if (!together() || !run(std::min(left, row), false)) return result;
  }
  seconds.clear();
  seconds.reserve(job.repeat);
  for (std::size_t left = job.repeat; left > 0; left -= std::min(left, row)) {
    if (!together()) return result;
    const double cpu = cpu_seconds();
    const double machine = machine_seconds();
    const double begin = now();
    if (!run(std::min(left, row), true)) return result;
    result.total += now() - begin;
    result.cpu += cpu_seconds() - cpu;
    result.machine_cpu += machine_seconds() - machine;
    check();
  }
  result.operations = seconds.size() + job.warm_up + rows(job.warm_up, row) + rows(job.repeat, row);
  result.right = all_right;
  std::sort(seconds.begin(), seconds.end());
  result.median = seconds[seconds.size() / 2];
  return result;
}

/// One line of JSON, with `more` members (", ..."), and the exit status.
inline int report(const Job& job, const Result& result, std::string_view how, std::string_view more = "") {
  fmt::print(
      "{{\"ok\": {}, \"collective\": \"{}\", \"algorithm\": \"{}\", \"rank\": {}, \"bytes\": {}, \"repeat\": "
      "{}, \"operations\": {}, \"median_seconds\": {}, \"total_seconds\": {}, \"cpu_seconds\": {}, "
      "\"machine_cpu_seconds\": {}, \"verified\": {}{}}}\n",
      result.right, job.name(), how, job.rank, sizeof(float) * job.elements, job.repeat, result.operations,
      result.median, result.total, result.cpu, result.machine_cpu, result.right, more);
  std::fflush(stdout);
  return result.right ? 0 : kFailed;
}

}  // namespace peer
