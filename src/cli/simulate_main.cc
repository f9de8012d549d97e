// `passing simulate`: what would it bring in my cluster? docs/simulation.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/report.h"
#include "cli/run_parts.h"
#include "cli/share.h"
#include "cli/simulate_parts.h"

namespace passing::cli {
namespace {

int fail_with(const std::string& sentence, int status = kFailed) {
  fmt::print(stderr, "passing simulate: {}\n", sentence);
  return status;
}

Expected<simulate::Cluster> cluster_for(const SimulateOptions& options, nlohmann::json& json) {
  const auto file = cluster_file(options.cluster);
  if (!file) return tl::unexpected(file.error());
  auto cluster = simulate::read_cluster(*file);
  if (!cluster || options.calibrate.empty()) return cluster;
  const auto rows = simulate::read_bench(options.calibrate);
  if (!rows) return tl::unexpected(rows.error());
  const auto calibration = simulate::calibrate(*rows, *cluster);
  if (!calibration) return tl::unexpected(calibration.error());
  calibration->apply(*cluster);
  json["calibration"] = to_json(*calibration);
  fmt::print("{}\n", to_text(*calibration));
  return cluster;
}

Expected<void> validate(const SimulateOptions& options, const simulate::Cluster& cluster,
                        nlohmann::json& json) {
  const Scratch scratch;
  std::string file = options.against;
  if (options.validate) {
    const auto measured = measure_in_lab(options, cluster, scratch.path());
    if (!measured) return tl::unexpected(measured.error());
    file = *measured;
  }
  if (auto ended = compare_with(file, cluster, !options.calibrate.empty(), json); !ended) return ended;
  return write_results(json, options.json);
}

int run(const SimulateOptions& options) {
  // Before the work, not after it.
  if (const auto can = can_write(options.json, options.report); !can) {
    return fail_with(can.error().message,
                     can.error().code == ErrorCode::invalid_argument ? kBadInput : kFailed);
  }
  nlohmann::json json = about_run("passing-simulate", options.command);
  const auto cluster = cluster_for(options, json);
  if (!cluster) return fail_with(cluster.error().message, kBadInput);
  if (options.validate || !options.against.empty()) {
    if (const auto ended = validate(options, *cluster, json); !ended) {
      return fail_with(ended.error().message,
                       ended.error().code == ErrorCode::invalid_argument ? kBadInput : kFailed);
    }
    return 0;
  }
  const auto questions = questions_of(options, *cluster);
  if (!questions) return fail_with(questions.error().message, kBadInput);
  if (const auto ended = sweep(*questions, options, json); !ended) return fail_with(ended.error().message);
  if (options.report.empty()) return 0;
  return write_report(
      {{{"file", options.json.empty() ? "simulate" : std::filesystem::path(options.json).filename().string()},
        {"content", json}}},
      options.report);
}

void add_options(CLI::App& app, SimulateOptions& options) {
  app.add_option("--cluster", options.cluster,
                 fmt::format("which cluster: {}, or a file", fmt::join(shared_names("clusters", ""), ", ")))
      ->required();
  app.add_option("--model", options.models,
                 fmt::format("which models: {}, or files; or all", fmt::join(replay_models(), ", ")))
      ->delimiter(',')
      ->capture_default_str();
  std::vector<std::string> names;
  for (const simulate::Strategy& each : simulate::all_strategies()) names.push_back(each.name());
  app.add_option("--strategies", options.strategies,
                 fmt::format("which strategies: {}; or all", fmt::join(names, ", ")))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--sweep", options.sweeps,
                 "values to go through, by doubling (gpus=8..65536) or one by one (rate=10gbit,100gbit); "
                 "also of gpus_per_host, servers, slots and oversubscription. Several sweeps: all "
                 "combinations. Default: all GPUs of the cluster");
  app.add_option("--beside", options.beside, "models of other jobs on the same hosts, links and switch")
      ->delimiter(',');
  app.add_option(
         "--level", options.level,
         fmt::format("explicit: every host (up to {} GPUs). folded: one host stands for all. auto: by size",
                     simulate::kMostExplicit))
      ->check(CLI::IsMember({"explicit", "folded", "auto"}))
      ->capture_default_str();
  app.add_option("--calibrate", options.calibrate,
                 "file of `passing bench --json` that gives efficiencies and latencies");
  app.add_option("--json", options.json, "file for all figures");
  app.add_option("--report", options.report, "HTML file for charts of them, as `passing report` makes it");
  app.add_flag("--validate", options.validate,
               "measure in a lab that is like the cluster, simulate the same, and say how far they are "
               "apart. Needs root, or user namespaces");
  app.add_option("--against", options.against,
                 "the same, with a file of `passing bench --json` instead of a lab")
      ->excludes("--validate");
  // What is compared is what was measured.
  for (const char* other : {"--sweep", "--beside", "--report"}) {
    for (const char* comparison : {"--validate", "--against"}) app.get_option(other)->excludes(comparison);
  }
  app.add_option("--hosts", options.lab_hosts, "for --validate: hosts of the lab")
      ->delimiter(',')
      ->check(whole_number(2, 64))
      ->capture_default_str();
  app.add_option("--ranks", options.lab_ranks, "for --validate: ranks per host")
      ->delimiter(',')
      ->check(whole_number(1, 16))
      ->capture_default_str();
  app.add_option("--sizes", options.lab_sizes, "for --validate: bytes of the tensors")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--samples", options.lab_samples, "for --validate: samples of each; the median counts")
      ->check(whole_number(1, 100))
      ->capture_default_str();
}

}  // namespace
}  // namespace passing::cli

// An exception that nobody expects ends the process with its message, which is what we want.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  CLI::App app{
      "Predict how long an iteration takes with each strategy, on up to 65,536 GPUs.\n\nA file describes the "
      "cluster. docs/simulation.md explains the model, the cluster files and the columns.",
      "passing simulate"};
  app.formatter(std::make_shared<passing::cli::Help>());
  app.footer(
      "Examples:\n"
      "  passing simulate --cluster gpus1024 --model vgg16 --sweep gpus=8..1024 --report "
      "report.html\n"
      "  passing simulate --cluster my.toml --calibrate bench.json --sweep rate=10gbit,100gbit\n"
      "  passing simulate --cluster lab --validate");
  passing::cli::SimulateOptions options;
  options.command =
      "passing simulate" + passing::cli::command_line(argc, argv).substr(std::string("passing").size());
  passing::cli::add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : passing::cli::kBadInput;
  }
  return passing::cli::run(options);
}
