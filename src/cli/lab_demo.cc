// `passing lab demo`: the same all-reduce by every strategy, on hosts of several ranks with slow links.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "cli/lab_parts.h"
#include "cli/progress.h"
#include "lab/privilege.h"
#include "passing/communicator.h"

namespace passing::cli {
namespace {

struct Options {
  LabOptions lab;
  std::size_t elements = 4'000'000;
  unsigned repeat = 2;
};

struct Entry {
  const char* strategy;
  const char* what;
  bool others_sum = false;  ///< a switch or server sums: a host sends and receives the tensor once at least
};

// Those that the others are measured by come first.
constexpr Entry kEntries[] = {
    {"ps", "one server adds for all ranks", true},
    {"ps_hierarchical", "sums in the host, then the server", true},
    {"ps_sharded", "every host serves a part"},
    {"halving_doubling", "pairs of ranks"},
    {"ring", "a ring of all ranks"},
    {"ring_hierarchical", "sums in the host, then a ring of hosts"},
    {"in_network", "the switch adds for all ranks", true},
    {"passing", "sums in the host, then the switch", true},
};

// Whole numbers, so that sums are exact in any order; no two ranks or near places alike.
float value_of(std::uint32_t rank, std::size_t at) { return static_cast<float>(1024 * rank + at % 1021); }

float sum_of(std::uint32_t ranks, std::size_t at) {
  const std::size_t pairs = std::size_t{ranks} * (ranks - 1) / 2;
  return static_cast<float>(1024 * pairs + ranks * (at % 1021));
}

// One rank: all-reduces, every element compared; a line of JSON for each.
Expected<void> run_rank(const Options& options) {
  auto comm = Communicator::from_environment();
  if (!comm) return tl::unexpected(comm.error());
  const auto sum = [&](std::vector<float>& data) {
    return comm->all_reduce(data.data(), data.data(), data.size(), DataType::float32).wait();
  };
  std::vector<float> first(1000, 1.0F);  // the first operation opens connections
  if (auto ended = sum(first); !ended) return ended;
  std::vector<float> data(options.elements);
  for (unsigned i = 0; i < options.repeat; ++i) {
    for (std::size_t at = 0; at < data.size(); ++at) data[at] = value_of(comm->rank(), at);
    if (auto ended = comm->barrier().wait(); !ended) return ended;
    const auto begin = std::chrono::steady_clock::now();
    if (auto ended = sum(data); !ended) return ended;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    for (std::size_t at = 0; at < data.size(); ++at) {
      if (data[at] != sum_of(comm->size(), at)) {
        return fail(ErrorCode::disagreement,
                    fmt::format("element {} is {}, not {}", at, data[at], sum_of(comm->size(), at)));
      }
    }
    fmt::print("{}\n", nlohmann::json{{"operation", i}, {"seconds", seconds.count()}}.dump());
    std::fflush(stdout);
  }
  return comm->barrier().wait();
}

/// One strategy's line of the table.
struct Row {
  int status = 0;
  double seconds = 0;   ///< of an operation, by the slowest rank
  double sent = 0;      ///< by a host, in tensors per operation
  double received = 0;  ///< the same
  double busiest = 0;   ///< the most that any link carried one way, a server's included
};

/// A cluster with a switch and a server, in which one strategy after the other runs.
class Demo {
 public:
  Demo(const Options& options, const lab::Cluster& cluster, lab::Launcher& launcher)
      : options_(options), cluster_(cluster), launcher_(launcher) {}

  Expected<void> start() { return start_services(options_.lab, cluster_, launcher_); }

  Expected<Row> run(const std::string& strategy) {
    const auto before = cluster_.links();
    if (!before) return tl::unexpected(before.error());
    const unsigned ranks = options_.lab.plan.hosts * options_.lab.ranks;
    const std::size_t first = launcher_.started();
    std::vector<double> slowest(options_.repeat);
    unsigned ended = 0;
    // Elsewhere than on a terminal, the lines of the table are progress enough.
    std::optional<ProgressLine> progress;
    if (isatty(STDERR_FILENO) != 0) progress.emplace(strategy).show(0);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const auto sink = [&, rank](const std::string& line) {
        const auto told = nlohmann::json::parse(line, nullptr, false);
        if (!told.is_object() || !told.contains("seconds")) {
          fmt::print(stderr, "rank {}: {}\n", rank, line);
          return;
        }
        double& longest = slowest.at(told["operation"].get<unsigned>());
        longest = std::max(longest, told["seconds"].get<double>());
        if (progress) progress->show(static_cast<double>(++ended) / (ranks * options_.repeat));
      };
      if (auto started = launcher_.start(process(strategy, rank, sink)); !started) {
        launcher_.end_from(first);  // their sinks end with this call
        return tl::unexpected(started.error());
      }
    }
    Row row{.status = launcher_.wait_from(first)};
    launcher_.end_from(first);
    if (progress) progress->end();
    const auto after = cluster_.links();
    if (!after) return tl::unexpected(after.error());
    row.seconds = std::accumulate(slowest.begin(), slowest.end(), 0.0) / options_.repeat;
    for (std::size_t i = 0; i < after->size(); ++i) {
      const double up = tensors((*after)[i].up.bytes - (*before)[i].up.bytes);
      const double down = tensors((*after)[i].down.bytes - (*before)[i].down.bytes);
      row.busiest = std::max({row.busiest, up, down});
      if (i >= options_.lab.plan.hosts) continue;
      row.sent += up / options_.lab.plan.hosts;
      row.received += down / options_.lab.plan.hosts;
    }
    return row;
  }

 private:
  lab::Process process(const std::string& strategy, unsigned rank, lab::LineSink sink) const {
    lab::Process process =
        rank_process(cluster_, rank,
                     {std::filesystem::read_symlink("/proc/self/exe"), "lab", "demo-rank", "--elements",
                      std::to_string(options_.elements), "--repeat", std::to_string(options_.repeat)});
    process.environment["PASSING_STRATEGY"] = strategy;
    process.environment["PASSING_JOB"] = strategy;
    process.sink = std::move(sink);
    return process;
  }

  double tensors(std::uint64_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(sizeof(float) * options_.elements) /
           options_.repeat;
  }

  const Options& options_;
  const lab::Cluster& cluster_;
  lab::Launcher& launcher_;
};

// What every host must send and receive at least, in tensors, whatever the algorithm. Who carried less did
// not do what the strategy is.
double least(const Entry& entry, unsigned hosts) { return entry.others_sum ? 1 : 2.0 * (hosts - 1) / hosts; }

void print_head(const Options& options) {
  const lab::Plan& plan = options.lab.plan;
  fmt::print(
      "{} hosts of {} ranks each, a switch and a parameter server, in network namespaces of this machine.\n"
      "Every link: {}. Each strategy all-reduces {:.3g} MB of float32, {} times; every element is "
      "checked.\n\n",
      plan.hosts, options.lab.ranks, plan.rate == "none" ? "not shaped" : plan.rate + " each way",
      1e-6 * static_cast<double>(sizeof(float) * options.elements), options.repeat);
  fmt::print("{:<18} {:>9} {:>8} {:>10} {:>10} {:>9}\n", "", "time", "speed", "a host", "a host", "busiest");
  fmt::print("{:<18} {:>9} {:>8} {:>10} {:>10} {:>9}\n", "strategy", "of one", "of ps", "sends", "receives",
             "link");
}

// Whether all strategies gave right results; or, after a signal, 128 and its number.
Expected<int> run_all(const Options& options, const lab::Cluster& cluster, lab::Launcher& launcher) {
  Demo demo(options, cluster, launcher);
  if (auto started = demo.start(); !started) return tl::unexpected(started.error());
  print_head(options);
  int status = 0;
  double yardstick = 0;
  for (const Entry& entry : kEntries) {
    std::fflush(stdout);
    const auto row = demo.run(entry.strategy);
    if (!row) return tl::unexpected(row.error());
    if (launcher.interrupted()) return row->status;
    if (row->status != 0) {
      fmt::print("{:<18} failed\n", entry.strategy);
      status = kFailed;
      continue;
    }
    if (const double must = least(entry, options.lab.plan.hosts); std::min(row->sent, row->received) < must) {
      fmt::print("{:<18} carried {:.2f} and {:.2f} tensors, fewer than the {:.2f} that it must\n",
                 entry.strategy, row->sent, row->received, must);
      status = kFailed;
      continue;
    }
    if (yardstick == 0) yardstick = row->seconds;
    fmt::print("{:<18} {:>7.3f} s {:>6.1f} x {:>10.2f} {:>10.2f} {:>9.2f}  {}\n", entry.strategy,
               row->seconds, yardstick / row->seconds, row->sent, row->received, row->busiest, entry.what);
  }
  fmt::print(
      "\nSent and received: by a host over its link for one all-reduce, in tensors, headers included.\n");
  return status;
}

// Why there is no lab; nothing if there was one, whose status is returned.
Expected<int> run_in_lab(const Options& options) {
  if (auto gained = lab::gain_privilege(); !gained) return tl::unexpected(gained.error());
  // First: from here on signals are ours, so that none can end us between two namespaces.
  lab::Launcher launcher;
  const auto cluster = lab::Cluster::create(wanted(options.lab));
  if (!cluster) return tl::unexpected(cluster.error());
  const auto status = run_all(options, *cluster, launcher);
  launcher.end_all();
  return status ? *status : complain(status.error().message);
}

int run(const Options& options) {
  const auto status = run_in_lab(options);
  if (status) return *status;
  const std::string& reason = status.error().message;
  fmt::print("No lab on this machine, so a rehearsal over a simulated network instead: {}.\n\n",
             reason.substr(0, reason.find('\n')));
  return rehearsal();
}

void add_sizes(CLI::App& command, Options& options) {
  command.add_option("--elements", options.elements, "float32 elements of the tensor")
      ->check(whole_number(1, 1'000'000'000))
      ->capture_default_str();
  command.add_option("--repeat", options.repeat, "operations that are measured")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
}

}  // namespace

void add_lab_demo(CLI::App& lab) {
  auto options = std::make_shared<Options>();
  options->lab.ranks = 2;
  options->lab.plan.servers = 1;
  // Who cannot go on is told why by its rank: what servers log is noise here.
  options->lab.log = [](const std::string&) {};
  options->lab.plan.rate = "200mbit";
  CLI::App* command = lab.add_subcommand("demo",
                                         "Compare all strategies: their time, and what the hosts' links "
                                         "carry.\n\nWhere no lab can be made, it shows a rehearsal instead.");
  command->add_option("--hosts", options->lab.plan.hosts, "hosts, each with a link of its own")
      ->check(whole_number(2, 32))
      ->capture_default_str();
  command->add_option("--ranks", options->lab.ranks, "ranks per host")
      ->check(whole_number(1, 16))
      ->capture_default_str();
  command
      ->add_option("--rate", options->lab.plan.rate,
                   "rate of each link each way, as tc writes it (1gbit, 200mbit), or none")
      ->capture_default_str();
  add_sizes(*command, *options);
  command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
  CLI::App* rank = lab.add_subcommand("demo-rank", "One rank of the demo, which starts it.")->group("");
  add_sizes(*rank, *options);
  rank->callback([options] {
    if (auto ended = run_rank(*options); !ended) {
      fmt::print("{}\n", ended.error().message);
      throw CLI::RuntimeError(kFailed);
    }
  });
}

}  // namespace passing::cli
