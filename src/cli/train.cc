// `passing train`: the same model trained with each strategy in turn, in a lab. docs/train.md.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_parts.h"
#include "cli/train_crew.h"
#include "cli/train_input.h"
#include "lab/privilege.h"

namespace passing::cli {
namespace {

constexpr unsigned kRealWarmUp = 2;  // DistributedDataParallel forms its buckets anew after the first step
constexpr unsigned kReplayWarmUp = 1;

/// How far everything is, and how long the rest will take: runs weigh what their links let us expect.
class TrainProgress {
 public:
  explicit TrainProgress(double whole) : whole_(whole) {}
  void begin(std::string what, double weight) {
    what_ = std::move(what);
    done_ += weight_;
    weight_ = weight;
    show(0);
  }
  void show(double share) const {
    if (isatty(STDERR_FILENO) == 0) return;
    using Seconds = std::chrono::duration<double>;
    const double spent = Seconds(std::chrono::steady_clock::now() - begin_).count();
    const double all = (done_ + share * weight_) / whole_;
    const std::string left = all > 0.02 ? fmt::format("{:.0f} s left", spent * (1 - all) / all) : "";
    ProgressLine(fmt::format("{:<28} {:>10}", what_, left)).show(all);
  }
  static void clear() {
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:<90}\r", "");
  }

 private:
  double whole_;
  double done_ = 0;
  double weight_ = 0;
  std::string what_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Tasks one after the other, in each rounds of all strategies.
class Train {
 public:
  Train(const TrainOptions& options, std::vector<Task> tasks, std::vector<std::string> strategies)
      : options_(options),
        tasks_(std::move(tasks)),
        strategies_(std::move(strategies)),
        json_(about_run("passing-train", options.command)),
        progress_(whole_weight()) {}

  Expected<void> run(Crew& crew) {
    for (const Task& task : tasks_) {
      if (auto ended = run(crew, task); !ended) return ended;
    }
    return {};
  }
  const nlohmann::json& results() const { return json_; }

 private:
  Expected<void> run(Crew& crew, const Task& task) {
    train::Table table{.about = about(task), .rows = {}};
    for (const std::string& each : strategies_) table.rows.push_back({.strategy = each, .rounds = {}});
    for (unsigned round = 0; round < options_.rounds; ++round) {
      for (train::Row& row : table.rows) {
        progress_.begin(fmt::format("{}, {}", task.model, row.strategy), weight(task, row.strategy));
        auto ended = crew.run(order(task, row.strategy), [&](unsigned step) {
          progress_.show(static_cast<double>(step) / table.about.steps);
        });
        if (!ended) {
          TrainProgress::clear();
          return tl::unexpected(ended.error());
        }
        row.rounds.push_back(std::move(*ended));
      }
    }
    TrainProgress::clear();
    for (const train::Row& row : table.rows) {
      if (const std::string wrong = table.unlike(row); !wrong.empty())
        return fail(ErrorCode::disagreement, wrong);
      json_["results"].push_back(train::to_json(table, row));
    }
    fmt::print("{}\n", train::to_text(table));
    std::fflush(stdout);
    return write_results(json_, options_.json);
  }

  double scale(const Task& task) const {
    return task.equivalent > 0 ? task.equivalent / lab::bits_per_second(options_.lab.plan.rate) : 1;
  }

  train::Case about(const Task& task) const {
    const lab::Plan& plan = options_.lab.plan;
    train::Case about{.mode = options_.mode,
                      .model = task.model,
                      .gpu = task.profile.gpu,
                      .equivalent = task.equivalent,
                      .shape = {.hosts = plan.hosts,
                                .ranks = options_.lab.ranks,
                                .servers = plan.servers,
                                .rate = lab::bits_per_second(plan.rate),
                                .mtu = plan.mtu},
                      .batch = options_.batch,
                      .steps = options_.steps};
    if (options_.replay()) {
      about.batch = task.profile.batch;
      about.bytes = sizeof(float) * train::schedule(task.profile, scale(task)).elements();
    } else {
      about.bytes = sizeof(float) * real_parameters(task.model);
    }
    return about;
  }

  nlohmann::json order(const Task& task, const std::string& strategy) const {
    nlohmann::json order = {{"strategy", strategy}, {"mode", options_.mode}, {"steps", options_.steps}};
    if (!options_.replay()) {
      order.update({{"model", task.model},
                    {"batch", options_.batch},
                    {"warm_up", kRealWarmUp},
                    {"parameters", real_parameters(task.model)}});
      return order;
    }
    const train::Schedule schedule = train::schedule(task.profile, scale(task));
    order.update({{"warm_up", kReplayWarmUp},
                  {"forward_seconds", schedule.forward_seconds},
                  {"backward_seconds", schedule.backward_seconds},
                  {"buckets", nlohmann::json::array()}});
    for (const train::Bucket& each : schedule.buckets)
      order["buckets"].push_back({{"elements", each.elements}, {"ready_seconds", each.ready_seconds}});
    return order;
  }

  double weight(const Task& task, const std::string& strategy) const {
    constexpr double kBeginning = 1;  // of a group
    constexpr double kLeastStep = 0.03;
    const train::Case what = about(task);
    const double step = benchmark::least_seconds(strategy, what.shape, false, what.bytes) + kLeastStep;
    return kBeginning + options_.steps * (step + (options_.replay() ? task.profile.forward_seconds() : 0));
  }

  double whole_weight() const {
    double sum = 0;
    for (const Task& task : tasks_) {
      for (const std::string& each : strategies_) sum += options_.rounds * weight(task, each);
    }
    return sum;
  }

  const TrainOptions& options_;
  std::vector<Task> tasks_;
  std::vector<std::string> strategies_;
  nlohmann::json json_;
  TrainProgress progress_;
};

int fail_with(const std::string& sentence, int status = kFailed) {
  fmt::print(stderr, "passing train: {}\n", sentence);
  return status;
}

Expected<void> in_lab(const TrainOptions& options, Train& train, lab::Launcher& launcher) {
  const auto cluster = lab::Cluster::create(wanted(options.lab));
  if (!cluster) return tl::unexpected(cluster.error());
  Expected<void> ended = start_services(options.lab, *cluster, launcher);
  if (ended) {
    Crew crew(*cluster, launcher);
    if (isatty(STDERR_FILENO) != 0)
      fmt::print(stderr, "starting {} ranks of Python ...\r", options.lab.plan.hosts * options.lab.ranks);
    ended = crew.start();
    if (ended) ended = train.run(crew);
  }
  launcher.end_all();
  return ended;
}

int run(TrainOptions options) {
  const auto strategies = strategies_of(options);
  if (!strategies) return fail_with(strategies.error().message, kBadInput);
  const auto tasks = tasks_of(options);
  if (!tasks) return fail_with(tasks.error().message, kBadInput);
  if (options.replay() && lab::bits_per_second(options.lab.plan.rate) == 0) {
    return fail_with(
        "--rate none: a replay scales models by the rate of links, so they must have one, such as 200mbit",
        kBadInput);
  }
  for (const std::string& each : options.equivalents) {
    if (lab::bits_per_second(each) == 0)
      return fail_with(fmt::format("--equivalent {}: must be a rate such as 10gbit", each), kBadInput);
  }
  // Before an hour of work, not after it.
  if (const auto can = can_write(options.json, options.report); !can) {
    return fail_with(can.error().message,
                     can.error().code == ErrorCode::invalid_argument ? kBadInput : kFailed);
  }
  if (options.steps == 0) options.steps = options.replay() ? 5 : 60;
  if (auto gained = lab::gain_privilege(); !gained) return fail_with(gained.error().message);
  // First: from here on signals are ours, so that none can end us between two namespaces.
  lab::Launcher launcher;
  Train train(options, *tasks, *strategies);
  if (auto ended = in_lab(options, train, launcher); !ended) return fail_with(ended.error().message);
  if (options.report.empty()) return 0;
  return write_report(
      {{{"file", options.json.empty() ? "train" : std::filesystem::path(options.json).filename().string()},
        {"content", train.results()}}},
      options.report);
}

}  // namespace

void add_train(CLI::App& app, int argc, char** argv) {
  auto options = std::make_shared<TrainOptions>();
  options->command = command_line(argc, argv);
  options->lab.ranks = 2;
  options->lab.plan.rate = "200mbit";
  options->lab.plan.servers = 1;
  options->lab.log = [](const std::string&) {};  // what services log is noise here
  CLI::App* command = app.add_subcommand(
      "train",
      "Train the same model with each strategy in turn, and compare.\n\nPyTorch's DistributedDataParallel "
      "trains on a cluster of network namespaces, or replays the gradients of a large model. Needs root, or "
      "user namespaces. docs/train.md explains columns, models and their files.");
  lab::Plan& plan = options->lab.plan;
  command->add_option("--hosts", plan.hosts, "hosts, each with a link of its own")
      ->check(whole_number(1, 32))
      ->capture_default_str();
  command->add_option("--ranks", options->lab.ranks, "ranks per host")
      ->check(whole_number(1, 16))
      ->capture_default_str();
  command
      ->add_option("--rate", plan.rate,
                   "rate of each link each way, as tc writes it (1gbit, 200mbit), or none")
      ->check(rate_of_link())
      ->capture_default_str();
  command->add_option("--mtu", plan.mtu, "MTU of all links, in bytes")
      ->check(whole_number(576, 9000))
      ->capture_default_str();
  command->add_option("--servers", plan.servers, "parameter servers, on hosts of their own")
      ->check(whole_number(1, 16))
      ->capture_default_str();
  command
      ->add_option("--mode", options->mode,
                   "real: this machine computes. replay: it sleeps as long as a GPU would compute")
      ->check(CLI::IsMember({"real", "replay"}))
      ->capture_default_str();
  command
      ->add_option("--model", options->models,
                   fmt::format("which models, or all. In mode real: {} (default: digits). In mode replay: {} "
                               "(default: resnet50), or a file",
                               fmt::join(real_models(), ", "), fmt::join(replay_models(), ", ")))
      ->delimiter(',');
  command
      ->add_option("--strategies", options->strategies,
                   fmt::format("which strategies, of {}, auto; or all, which is all but auto",
                               fmt::join(trained_strategies(), ", ")))
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option(
          "--equivalent", options->equivalents,
          "replay: the rate that links stand for. Tensors are smaller by as many times as it is --rate")
      ->delimiter(',')
      ->check(rate_of_link())
      ->capture_default_str();
  command
      ->add_option("--steps", options->steps,
                   "steps that are measured in each run. Default: 60, in a replay 5")
      ->check(whole_number(1, 100000));
  command->add_option("--batch", options->batch, "real: samples of each rank in a step")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "runs of each; the median counts")
      ->check(whole_number(1, 100))
      ->capture_default_str();
  command->add_option("--json", options->json, "file for all figures");
  command->add_option("--report", options->report,
                      "HTML file for charts of them, as `passing report` makes it");
  command->footer(
      "Examples:\n  passing train --hosts 4 --ranks 2 --rate 200mbit --json results.json --report "
      "report.html\n  passing train --mode replay --ranks 4 --model vgg16,resnet50 --equivalent "
      "10gbit,100gbit");
  command->final_callback([options] { finish(run(*options)); });
}

}  // namespace passing::cli
