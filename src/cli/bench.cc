// `passing bench`: strategies and peers side by side in one run, in a lab.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench_parts.h"
#include "cli/lab_parts.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_parts.h"
#include "lab/privilege.h"
#include "passing/config.h"

namespace passing::cli {
namespace {

struct Options {
  LabOptions lab;
  std::vector<unsigned> hosts = {4};
  std::vector<unsigned> ranks = {1};
  std::vector<std::string> rates = {"1gbit"};
  std::vector<std::string> sizes = {"1M", "16M"};
  std::vector<std::string> strategies = {"passing", "ring_hierarchical", "in_network", "ring"};
  std::vector<std::string> dataplanes = {"userspace"};
  bool profile = false;
  std::vector<std::string> peers = {"gloo", "gloo_hd", "openmpi", "openmpi_ring"};
  unsigned samples = 5;
  std::size_t repeat = 0;
  std::size_t warm_up = 0;
  std::size_t in_flight = 0;
  std::string json;
  std::string command;
};

// "1K", "16M", "64MB", "1000"; decimal. 0: not one, or not whole float32 elements.
std::size_t bytes_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  double unit = 0;
  for (const auto& [name, bytes] : {std::pair{"", 1.0},
                                    {"B", 1.0},
                                    {"K", 1e3},
                                    {"KB", 1e3},
                                    {"M", 1e6},
                                    {"MB", 1e6},
                                    {"G", 1e9},
                                    {"GB", 1e9}}) {
    if (strcasecmp(end, name) == 0) unit = bytes;
  }
  const double bytes = number * unit;
  if (!(bytes >= 4 && bytes <= 16e9) || bytes != std::floor(bytes) || std::fmod(bytes, 4) != 0) return 0;
  return static_cast<std::size_t>(bytes);
}

// "1K,16M", or a range "1K:64M", in which each is four times the one before.
Expected<std::vector<std::size_t>> sizes_of(const std::vector<std::string>& texts) {
  std::vector<std::size_t> sizes;
  for (const std::string& text : texts) {
    const std::size_t colon = text.find(':');
    const std::size_t first = bytes_of(text.substr(0, colon));
    const std::size_t last = colon == std::string::npos ? first : bytes_of(text.substr(colon + 1));
    if (first == 0 || last < first) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("--sizes: '{}' must be a multiple of 4 bytes such as 1K, 16M, or a range of them "
                      "such as 1K:64M",
                      text));
    }
    for (std::size_t size = first; size <= last; size *= 4) sizes.push_back(size);
  }
  return sizes;
}

benchmark::Shape shape_of(const LabOptions& lab) {
  return {.hosts = lab.plan.hosts,
          .ranks = lab.ranks,
          .racks = lab.plan.racks,
          .servers = lab.plan.servers,
          .rate = lab::bits_per_second(lab.plan.rate),
          .spine_rate = lab.plan.racks > 1 ? lab::bits_per_second(lab.plan.uplink_rate()) : 0,
          .mtu = lab.plan.mtu};
}

// Shaped, 32 MB is the least that the burst of a queue does not flatter: docs/benchmarks.md.
Work work_for(const Options& options, const Contender& contender, const benchmark::Shape& shape,
              std::size_t bytes) {
  const auto at_least = [&](double total) {
    return static_cast<std::size_t>(std::ceil(total / static_cast<double>(bytes)));
  };
  Work work{.bytes = bytes};
  if (shape.rate > 0) {
    const bool slow =
        benchmark::least_seconds(contender.strategy, shape, contender.rack, bytes) * shape.rate >
        8 * 2.5 * static_cast<double>(bytes);
    work.repeat = std::clamp<std::size_t>(at_least(slow ? 32e6 : 64e6), 2, 400);
  } else {
    work.repeat = std::clamp<std::size_t>(at_least(400e6), 8, shape.world() > 8 ? 500 : 2000);
    work.warm_up = 2 + work.repeat / 10;
  }
  // Peers' calls return when all is done.
  work.in_flight = contender.peer() || bytes < 1'000'000 ? 1 : bytes <= 4'000'000 ? 8 : 2;
  if (options.repeat != 0) work.repeat = options.repeat;
  if (options.warm_up != 0) work.warm_up = options.warm_up;
  if (options.in_flight != 0 && !contender.peer()) work.in_flight = options.in_flight;
  return work;
}

/// How far a run is, and how long it will take.
class Progress {
 public:
  explicit Progress(std::size_t samples) : samples_(samples) {}
  void show(const std::string& what) {
    using Seconds = std::chrono::duration<double>;
    const double share = static_cast<double>(done_) / static_cast<double>(samples_);
    const double spent = Seconds(std::chrono::steady_clock::now() - begin_).count();
    const double left = done_ == 0 ? 0 : spent * (1 - share) / share;
    ProgressLine line(fmt::format("{} {:.0f} s left", what, left));
    if (isatty(STDERR_FILENO) != 0) line.show(share);
    ++done_;
  }
  void clear() const {
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:<90}\r", "");
  }

 private:
  std::size_t samples_;
  std::size_t done_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// All of a run: clusters one after the other, in each sizes, in each rounds of all contenders.
class Bench {
 public:
  Bench(const Options& options, std::vector<Contender> contenders, std::vector<std::size_t> sizes,
        lab::Launcher& launcher)
      : options_(options),
        contenders_(std::move(contenders)),
        sizes_(std::move(sizes)),
        launcher_(launcher),
        json_(about_run("passing-bench", options.command)),
        progress_(options.hosts.size() * options.ranks.size() * options.rates.size() * sizes_.size() *
                  contenders_.size() * options.samples) {}

  // The exit status.
  Expected<int> run() {
    json_["absent"] = nlohmann::json::array();
    for (const Contender& each : contenders_) {
      if (const auto program = program_of(each); !program && each.peer()) {
        json_["absent"].push_back({{"strategy", each.name}, {"reason", program.error().message}});
      } else if (!program) {
        return tl::unexpected(program.error());
      }
    }
    for (const std::string& rate : options_.rates) {
      for (const unsigned hosts : options_.hosts) {
        for (const unsigned ranks : options_.ranks) {
          LabOptions lab = options_.lab;
          lab.plan.hosts = hosts;
          lab.plan.rate = rate;
          lab.ranks = ranks;
          if (auto ended = on_clusters(lab); !ended) return tl::unexpected(ended.error());
        }
      }
    }
    if (auto written = write_results(json_, options_.json); !written) return tl::unexpected(written.error());
    return failed_ ? kFailed : 0;
  }

 private:
  /// One for each dataplane, all there at once, so that their samples alternate.
  using Clusters = std::map<std::string, lab::Cluster>;

  Expected<void> on_clusters(const LabOptions& wanted_lab) {
    const std::size_t before = launcher_.started();
    Clusters clusters;
    Expected<void> ended;
    for (const std::string& dataplane : options_.dataplanes) {
      LabOptions lab = wanted_lab;
      lab.plan.dataplane = dataplane;
      if (options_.profile && lab.plan.in_kernel()) lab.switch_arguments.emplace_back("--profile");
      auto cluster = lab::Cluster::create(wanted(lab));
      if (!cluster) {
        ended = tl::unexpected(cluster.error());
        break;
      }
      const auto& made = clusters.emplace(dataplane, std::move(*cluster)).first->second;
      ended = start_services(lab, made, launcher_);
      if (!ended) break;
    }
    for (std::size_t i = 0; ended && i < sizes_.size(); ++i)
      ended = of_size(sizes_[i], shape_of(wanted_lab), clusters);
    launcher_.end_from(before);
    return ended;
  }

  Expected<void> of_size(std::size_t bytes, const benchmark::Shape& shape, const Clusters& clusters) {
    benchmark::Rows rows;
    std::vector<Work> works;
    for (const Contender& each : contenders_) {
      works.push_back(work_for(options_, each, shape, bytes));
      benchmark::Row row{.strategy = each.strategy,
                         .peer = each.peer(),
                         .rack = each.rack,
                         .dataplane = each.dataplane,
                         .shape = shape,
                         .bytes = bytes,
                         .repeat = works.back().repeat,
                         .in_flight = works.back().in_flight,
                         .samples = {},
                         .absent = {},
                         .error = {}};
      if (const auto program = program_of(each); !program) row.absent = program.error().message;
      rows.push_back(std::move(row));
    }
    for (unsigned round = 0; round < options_.samples; ++round) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        progress_.show(fmt::format("{}, {}", rows[i].name(), benchmark::size_text(bytes)));
        if (!rows[i].error.empty() || !rows[i].absent.empty()) continue;
        const std::string& dataplane = contenders_[i].dataplane;
        const lab::Cluster& cluster =
            clusters.at(dataplane.empty() ? options_.dataplanes.front() : dataplane);
        if (auto taken = take(rows[i], contenders_[i], works[i], cluster); !taken) return taken;
      }
    }
    progress_.clear();
    fmt::print("{}\n", benchmark::to_table(rows));
    std::fflush(stdout);
    for (const benchmark::Row& row : rows) {
      if (row.absent.empty()) json_["results"].push_back(to_json(row, rows));
    }
    return write_results(json_, options_.json);  // what there is, in case that the rest is not waited for
  }

  // One sample. What goes wrong in it is the row's; only an interruption ends everything.
  Expected<void> take(benchmark::Row& row, const Contender& contender, const Work& work,
                      const lab::Cluster& cluster) {
    const auto sample = run_sample(contender, work, cluster, launcher_);
    if (!sample && launcher_.interrupted()) return tl::unexpected(sample.error());
    if (!sample && sample.error().code == ErrorCode::no_capacity && row.peer) {
      row.absent = sample.error().message;
      json_["absent"].push_back({{"strategy", row.strategy}, {"bytes", row.bytes}, {"reason", row.absent}});
    } else if (!sample) {
      row.error = sample.error().message;
    } else if (const std::string lie = row.too_little(*sample); !lie.empty()) {
      row.error = lie;
    } else {
      row.samples.push_back(*sample);
    }
    failed_ = failed_ || !row.error.empty();
    return {};
  }

  const Options& options_;
  std::vector<Contender> contenders_;
  std::vector<std::size_t> sizes_;
  lab::Launcher& launcher_;
  nlohmann::json json_;
  Progress progress_;
  bool failed_ = false;
};

int fail_with(const std::string& sentence, int status = kFailed) {
  fmt::print(stderr, "passing bench: {}\n", sentence);
  return status;
}

int run(Options options) {
  // Before an hour of work, not after it.
  if (const auto can = can_write(options.json, ""); !can) return fail_with(can.error().message, kBadInput);
  const auto sizes = sizes_of(options.sizes);
  if (!sizes) return fail_with(sizes.error().message, kBadInput);
  std::vector<Contender> contenders;
  std::vector<std::string> names = options.strategies;
  if (options.peers == std::vector<std::string>{"all"}) options.peers = peers();
  if (options.peers != std::vector<std::string>{"none"})
    names.insert(names.end(), options.peers.begin(), options.peers.end());
  for (const std::string& name : names) {
    auto found = contender(name);
    if (!found) return fail_with(found.error().message, kBadInput);
    if (found->strategy.starts_with("ps") && found->strategy != "ps_sharded" && options.lab.plan.servers == 0)
      options.lab.plan.servers = 1;
    // What auto chooses may go through the switch.
    if (found->peer() || !(benchmark::through_switch(found->strategy) || found->strategy == "auto")) {
      contenders.push_back(std::move(*found));
      continue;
    }
    for (const std::string& dataplane : options.dataplanes) {
      found->dataplane = dataplane;
      contenders.push_back(*found);
    }
  }
  for (const std::string& dataplane : options.dataplanes) {
    if (std::ranges::count(options.dataplanes, dataplane) > 1)
      return fail_with(fmt::format("--dataplane names {} twice", dataplane), kBadInput);
    lab::Plan plan = options.lab.plan;
    plan.dataplane = dataplane;
    plan.hosts = *std::ranges::min_element(options.hosts);
    if (const std::string why = contradiction(plan); !why.empty()) return fail_with(why, kBadInput);
  }
  if (auto gained = lab::gain_privilege(); !gained) return fail_with(gained.error().message);
  lab::Launcher launcher;
  const auto status = Bench(options, std::move(contenders), *sizes, launcher).run();
  launcher.end_all();
  if (!status) return fail_with(status.error().message);
  return *status;
}

}  // namespace

void add_bench(CLI::App& app, int argc, char** argv) {
  auto options = std::make_shared<Options>();
  options->command = command_line(argc, argv);
  // What services log is noise here.
  options->lab.log = [](const std::string&) {};
  CLI::App* command = app.add_subcommand(
      "bench",
      "Measure all-reduce: strategies and peers (Gloo, Open MPI) side by side.\n\nAll of them run in turn on "
      "a cluster of network namespaces, and every result is checked. Needs root, or user namespaces. "
      "docs/benchmarks.md explains the columns. `passing report` makes a page of the JSON.");
  const auto list = [&](const char* name, auto& where, const std::string& text) {
    return command->add_option(name, where, text)->delimiter(',')->capture_default_str();
  };
  list("--hosts", options->hosts, "hosts, each with a link of its own. Several values: one cluster each")
      ->check(whole_number(1, 64));
  list("--ranks", options->ranks, "ranks per host")->check(whole_number(1, 64));
  list("--rate", options->rates, "rate of each link each way, as tc writes it (1gbit, 200mbit), or none")
      ->check(rate_of_link());
  list("--sizes", options->sizes,
       "bytes of the float32 tensor: 1K,16M, or a range 1K:64M in steps of 4 times");
  list("--strategies", options->strategies,
       fmt::format("which strategies, of {}. passing:rack and auto:rack sum in racks first",
                   fmt::join(strategies(), ", ")));
  list("--dataplane", options->dataplanes,
       "where the switch sums. Several values: side by side, for strategies that use the switch")
      ->check(CLI::IsMember(dataplanes()));
  command->add_flag("--profile", options->profile,
                    "also measure how long programs of a switch in the kernel run. It costs a little");
  list("--peers", options->peers,
       fmt::format("which peers, of {}; or all, or none", fmt::join(peers(), ", ")));
  command
      ->add_option("--racks", options->lab.plan.racks,
                   "racks, joined by a spine where the switch is; at most one per host")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  command
      ->add_option("--spine-rate", options->lab.plan.spine_rate,
                   "rate of each rack's uplink. Default: --rate")
      ->check(rate_of_link());
  command
      ->add_option("--servers", options->lab.plan.servers,
                   "parameter servers, on hosts of their own. Default: 1 if a strategy needs one")
      ->check(whole_number(0, 16));
  command->add_option("--mtu", options->lab.plan.mtu, "MTU of all links, in bytes")
      ->check(whole_number(576, 9000))
      ->capture_default_str();
  command->add_option("--samples", options->samples, "launches of each; the median counts")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--repeat", options->repeat,
                   "operations of a sample. Default: 64 MB of them where links are shaped, else 400 MB")
      ->check(whole_number(1, 1'000'000));
  command->add_option("--warm-up", options->warm_up, "operations before that, not measured. Default: by size")
      ->check(whole_number(1, 1'000'000));
  command
      ->add_option("--in-flight", options->in_flight,
                   "operations that our strategies have under way at once; peers have 1. Default: 1 below 1 "
                   "MB, 8 up to 4 MB, else 2")
      ->check(whole_number(1, 64));
  command->add_option("--json", options->json, "file for all figures");
  command->footer(
      "Examples:\n  passing bench --hosts 4 --ranks 2 --rate 1gbit --sizes 1M,16M --peers gloo --json "
      "results.json\n  passing report results.json");
  command->final_callback([options] { finish(run(*options)); });
}

}  // namespace passing::cli
