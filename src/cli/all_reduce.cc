// `passing all-reduce`: joins a job, sums a generated tensor, checks every element. The smoke test.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "net/member.h"
#include "numeric/types.h"
#include "wire/wire.h"

namespace passing::cli {
namespace {

using numeric::DataType;
using numeric::Reduction;

struct Options {
  net::Member::Options member;
  std::string token_file;
  std::uint64_t elements = 1'000'000;
  DataType type = DataType::float32;
  Reduction reduction = Reduction::sum;
  unsigned repeat = 1;
  unsigned warm_up = 0;
  unsigned in_flight = 1;
  double timeout = 30;
  double join_timeout = 60;
  double pause = 0;
  bool check_last = false;
  bool no_check = false;
  bool json = false;
};

// Small integers: exact in every type, and so are their sums, so that the right answer is known.
int value_of(std::uint64_t i, std::uint32_t rank, std::uint32_t repeat) {
  return static_cast<int>((i * 7 + rank * 3 + repeat) % 13) - 6;
}

std::uint16_t half_of(DataType type, int value) {
  // Exact: at most 6 significant bits.
  const float magnitude = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &magnitude, 4);
  if (type == DataType::bfloat16) return static_cast<std::uint16_t>(bits >> 16);
  if (value == 0) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | (((bits >> 23 & 0xFF) - 112) << 10) |
                                    (bits >> 13 & 0x3FF));
}

void store(DataType type, std::byte* out, int value) {
  const float real = static_cast<float>(value);
  const std::uint16_t half = half_of(type, value);
  switch (type) {
    case DataType::float32: std::memcpy(out, &real, 4); break;
    case DataType::int32: std::memcpy(out, &value, 4); break;
    default: std::memcpy(out, &half, 2); break;
  }
}

void fill(const Options& options, std::uint32_t rank, std::uint32_t repeat, std::vector<std::byte>& tensor) {
  const std::size_t width = numeric::size_of(options.type);
  // The values repeat every 13 elements: make that once, then copy.
  std::vector<std::byte> period(13 * width);
  for (std::uint64_t i = 0; i < 13; ++i)
    store(options.type, period.data() + i * width, value_of(i, rank, repeat));
  for (std::size_t at = 0; at < tensor.size(); at += period.size()) {
    std::memcpy(tensor.data() + at, period.data(), std::min(period.size(), tensor.size() - at));
  }
}

// The exact sum of all ranks; an average is checked as a sum whose divisor divides it.
bool check(const Options& options, std::uint32_t repeat, const std::vector<std::byte>& tensor,
           std::string& complaint) {
  const std::size_t width = numeric::size_of(options.type);
  std::vector<std::byte> period(13 * width);
  for (std::uint64_t i = 0; i < 13; ++i) {
    int sum = 0;
    for (std::uint32_t rank = 0; rank < options.member.size; ++rank) sum += value_of(i, rank, repeat);
    store(options.type, period.data() + i * width, sum);
  }
  for (std::size_t i = 0; i < options.elements; ++i) {
    if (std::memcmp(tensor.data() + i * width, period.data() + i % 13 * width, width) == 0) continue;
    complaint = fmt::format("element {} of {} is wrong in repeat {}", i, options.elements, repeat);
    return false;
  }
  return true;
}

Expected<std::string> read_token(const Options& options) {
  if (options.token_file.empty()) return options.member.token;
  std::ifstream file(options.token_file);
  std::string token;
  if (!(file >> token)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--token-file {}: cannot be read", options.token_file));
  }
  return token;
}

int complain(const Options& options, const Error& error) {
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"ok", false},
                                      {"error", error.message},
                                      {"code", to_string(error.code)},
                                      {"members", error.members}}
                           .dump());
  }
  fmt::print(stderr, "passing all-reduce: rank {}: {}\n", options.member.rank, error.message);
  return error.code == ErrorCode::invalid_argument ? kBadInput : kFailed;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Other commands go by these, and whoever sets them expects it here too.
void say_what_is_ignored() {
  std::string ignored;
  for (const auto& [name, harmless] : {std::pair{"PASSING_STRATEGY", "in_network"},
                                       {"PASSING_LOCAL_DOMAIN", "host"},
                                       {"PASSING_LANES", ""},
                                       {"PASSING_SLOTS", ""},
                                       {"PASSING_TIMEOUT", ""},
                                       {"PASSING_CREATE_TIMEOUT", ""}}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0 || std::string_view(value) == harmless) continue;
    ignored += fmt::format("{}{}={}", ignored.empty() ? "" : ", ", name, value);
  }
  if (ignored.empty()) return;
  fmt::print(stderr,
             "passing all-reduce: not used here: {}; every rank is a member of the switch by itself "
             "(in_network). Options set the rest; `passing bench` and the library have other strategies.\n",
             ignored);
}

/// All operations of one rank.
class Trial {
 public:
  Trial(const Options& options, net::Member& member)
      : options_(options),
        member_(member),
        bytes_(options.elements * numeric::size_of(options.type)),
        // When measuring, one input serves all operations and is never written; else each is done in place.
        input_(options.check_last ? bytes_ : 0),
        tensors_(options.in_flight, std::vector<std::byte>(bytes_)),
        began_(all()) {
    fill(options, options.member.rank, 0, input_);
  }

  Expected<void> run() {
    double cpu = cpu_seconds();
    Time first = net::monotonic_now();
    Time last = 0;
    // Operations are kept in flight: the next is submitted when the oldest ends.
    for (unsigned i = 0; i < all(); ++i) {
      while (submitted_ < all() && submitted_ < i + options_.in_flight) {
        if (auto queued = submit(); !queued) return queued;
      }
      if (const auto done = member_.wait(); !done.outcome) return done.outcome;
      last = net::monotonic_now();
      if (i + 1 == options_.warm_up) {  // the measured ones begin when the last of the others ends
        cpu = cpu_seconds();
        first = last;
      }
      if (i >= options_.warm_up) seconds_.push_back(static_cast<double>(last - began_[i]) / kSecond);
      if (auto right = check_result(i); !right) return right;
      if (options_.pause > 0) usleep(static_cast<useconds_t>(options_.pause * 1e6));
    }
    wall_ = static_cast<double>(last - first) / kSecond;
    cpu_ = cpu_seconds() - cpu;
    return {};
  }

  void report() const {
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    const double median = sorted[sorted.size() / 2];
    std::uint64_t retransmissions = 0;
    std::uint64_t timeouts = 0;
    for (std::uint32_t lane = 0; lane < member_.lanes(); ++lane) {
      const auto& counters = member_.endpoint().lane(lane).counters();
      retransmissions += counters.retransmissions;
      timeouts += counters.timeouts;
    }
    if (options_.json) {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      fmt::print("{}\n", nlohmann::json{{"ok", true},
                                        {"rank", options_.member.rank},
                                        {"bytes", bytes_},
                                        {"repeat", options_.repeat},
                                        {"median_seconds", median},
                                        {"total_seconds", wall_},
                                        {"cpu_seconds", cpu_},
                                        {"retransmissions", retransmissions},
                                        {"timeouts", timeouts},
                                        {"resident_kb", usage.ru_maxrss},
                                        {"tensor_kb", (input_.size() + bytes_ * options_.in_flight) / 1024},
                                        {"verified", !options_.no_check}}
                             .dump());
    } else if (options_.member.rank == 0) {
      fmt::print(
          "{} x {} {} among {} members: {}; in_network, median {:.3f} ms, {:.3f} Gbit/s each way, {} packets "
          "sent again\n",
          options_.repeat, options_.elements, numeric::to_string(options_.type), options_.member.size,
          options_.check_last ? "every element of the last one right" : "every element right", 1e3 * median,
          8e-9 * static_cast<double>(bytes_) * options_.repeat / wall_, retransmissions);
    }
  }

 private:
  unsigned all() const { return options_.warm_up + options_.repeat; }

  Expected<void> submit() {
    auto& tensor = tensors_[submitted_ % options_.in_flight];
    if (!options_.check_last) fill(options_, options_.member.rank, submitted_, tensor);
    began_[submitted_] = net::monotonic_now();
    const auto number =
        member_.submit({.type = options_.type,
                        .reduction = Reduction::sum,
                        .elements = options_.elements,
                        .input = options_.check_last ? input_.data() : tensor.data(),
                        .output = tensor.data(),
                        .deadline = began_[submitted_] + static_cast<Duration>(options_.timeout * kSecond)});
    ++submitted_;
    if (!number) return tl::unexpected(number.error());
    return {};
  }

  Expected<void> check_result(unsigned i) const {
    std::string complaint;
    if (options_.no_check || (options_.check_last && i + 1 != all()) ||
        check(options_, options_.check_last ? 0 : i, tensors_[i % options_.in_flight], complaint))
      return {};
    return fail(ErrorCode::disagreement, complaint);
  }

  const Options& options_;
  net::Member& member_;
  std::size_t bytes_;
  std::vector<std::byte> input_;
  std::vector<std::vector<std::byte>> tensors_;
  std::vector<Time> began_;
  unsigned submitted_ = 0;
  std::vector<double> seconds_;  // of those that are measured
  double wall_ = 0;              // of all of them
  double cpu_ = 0;
};

int run(Options options) {
  if (options.member.rank == 0) say_what_is_ignored();
  const auto token = read_token(options);
  if (!token) return complain(options, token.error());
  options.member.token = *token;
  options.member.join_timeout = static_cast<Duration>(options.join_timeout * kSecond);
  auto joined = net::Member::join(options.member);
  if (!joined) return complain(options, joined.error());
  net::Member& member = **joined;
  for (const std::string& warning : member.warnings())
    fmt::print(stderr, "passing all-reduce: warning: {}\n", warning);
  Trial trial(options, member);
  if (const auto ended = trial.run(); !ended) {
    static_cast<void>(member.leave(kSecond));
    return complain(options, ended.error());
  }
  if (const auto left = member.leave(static_cast<Duration>(options.timeout * kSecond)); !left)
    return complain(options, left.error());
  trial.report();
  return 0;
}

void add_job_options(CLI::App& command, Options& options) {
  net::Member::Options& member = options.member;
  command.add_option("--controller", member.controller, "HOST:PORT of the switch's controller")
      ->envname("PASSING_CONTROLLER")
      ->required();
  command.add_option("--job", member.job, "name of the job, the same for all ranks")
      ->envname("PASSING_JOB")
      ->required();
  command.add_option("--size", member.size, "ranks of the job, 1 to 64")->envname("PASSING_SIZE")->required();
  command.add_option("--rank", member.rank, "which of them this is; below --size")
      ->envname("PASSING_RANK")
      ->required()
      ->check(whole_number(0, 63));
  command
      .add_option("--token", member.token,
                  "the job's secret, the same for all ranks. The variable is safer: command lines are public")
      ->envname("PASSING_TOKEN");
  command.add_option("--token-file", options.token_file, "file that holds the secret")
      ->envname("PASSING_TOKEN_FILE");
}

void add_work_options(CLI::App& command, Options& options) {
  net::Member::Options& member = options.member;
  command.add_option("--elements", options.elements, "elements of the tensor")
      ->capture_default_str()
      ->check(whole_number(0, 4'000'000'000));
  command.add_option("--dtype", options.type, "float32, float16, bfloat16 or int32 [default: float32]")
      ->transform(CLI::CheckedTransformer(std::map<std::string, DataType>{{"float32", DataType::float32},
                                                                          {"float16", DataType::float16},
                                                                          {"bfloat16", DataType::bfloat16},
                                                                          {"int32", DataType::int32}}))
      ->option_text("TYPE");
  command.add_option("--repeat", options.repeat, "operations that are measured")
      ->capture_default_str()
      ->check(whole_number(1, 1'000'000));
  command.add_option("--warm-up", options.warm_up, "operations before that, not measured")
      ->capture_default_str()
      ->check(whole_number(0, 1'000'000));
  command.add_option("--in-flight", options.in_flight, "operations under way at once")
      ->capture_default_str()
      ->check(whole_number(1, 64));
  command
      .add_option("--lanes", member.lanes,
                  "lanes, each with a socket. Default: as many as the switch has threads, at most 4")
      ->check(whole_number(1, 64));
  command
      .add_option("--slots", member.slots,
                  "slots per lane, a power of two. Default: 256 over all lanes, fewer if packets are large")
      ->check(whole_number(1, 32768));
  command.add_option("--timeout", options.timeout, "seconds until an operation fails")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 86400.0));
  command.add_option("--join-timeout", options.join_timeout, "seconds to wait for the other ranks")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 86400.0));
  command.add_option("--pause", options.pause, "seconds between operations; without it, none")
      ->check(CLI::Range(0.0, 3600.0));
  command.add_flag("--quiet", member.quiet, "say nothing on standard error while waiting for others")
      ->envname("PASSING_QUIET");
  command.add_flag("--rejoin", member.rejoin,
                   "begin a new epoch: the earlier process with this rank is dead");
  command.add_flag("--no-check", options.no_check, "benchmark only: the switch gives no sums")->group("");
  command.add_flag("--check-last", options.check_last, "check only the last result, which costs less time");
  command.add_flag_callback(
      "--no-segmentation", [&member] { member.segmentation = false; }, "use no UDP segmentation offload");
  command.add_flag("--json", options.json, "print one JSON object instead of a sentence");
}

}  // namespace

void add_all_reduce(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("all-reduce",
                         "Test a switch: all-reduce a tensor through it and check every element.\n\nThis is "
                         "pure in-network aggregation. Every rank is a member of the switch by itself, and "
                         "nothing is summed in the host. PASSING_STRATEGY and PASSING_LOCAL_DOMAIN do not "
                         "apply. To compare strategies, use passing bench. Run it once per rank.");
  add_job_options(*command, *options);
  add_work_options(*command, *options);
  command->footer(
      "Examples:\n"
      "  export PASSING_TOKEN=a-secret-of-yours\n"
      "  passing all-reduce --controller HOST:9001 --job try --size 2 --rank 0 --elements 1000000\n"
      "  passing lab run --hosts 4 --rate 1gbit -- passing all-reduce --elements 4000000 --repeat 10");
  command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace passing::cli
