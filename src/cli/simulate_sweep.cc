// Questions and answers: simulations in processes of their own, as many at once as there are processors.
#include <fmt/format.h>
#include <unistd.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "cli/progress.h"
#include "cli/run_parts.h"
#include "cli/simulate_parts.h"
#include "simulate/row.h"

namespace passing::cli {
namespace {

/// Asked, and not yet answered.
struct Pending {
  const simulate::Question* question;
  simulate::Traffic traffic;
  simulate::Run run;
};

class Sweep {
 public:
  explicit Sweep(const Questions& questions) : questions_(questions), progress_("simulating") {
    for (const SimulatedTable& table : questions.tables) {
      for (const auto& each : table.cases) {
        for (const simulate::Question& question : each) order_.push_back(&question);
      }
    }
    for (const simulate::Question* each : order_) whole_ += weight(*each);
  }

  /// The next answer, in the order of questions.
  Expected<simulate::Answer> next() {
    const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
    while (pending_.size() < most && asked_ < order_.size()) {
      const simulate::Question& question = *order_[asked_++];
      simulate::Scenario scenario = scenario_of(question);
      auto run = simulate::Run::start(scenario);
      if (!run) return tl::unexpected(run.error());
      pending_.push_back({&question, std::move(scenario.traffic), std::move(*run)});
    }
    Pending& first = pending_.front();
    const auto timing = first.run.finish();
    if (!timing) return tl::unexpected(timing.error());
    done_ += weight(*first.question);
    if (isatty(STDERR_FILENO) != 0) progress_.show(done_ / whole_);
    simulate::Answer made = answer(*first.question, first.traffic, *timing);
    pending_.pop_front();
    return made;
  }
  void end() const { progress_.end(); }

 private:
  // Explicit ones take longer, with the square of the hosts.
  static double weight(const simulate::Question& question) {
    const double hosts = question.layout.hosts;
    return question.level == simulate::Level::folded ? 30 : 30 + hosts * hosts / 100;
  }

  const Questions& questions_;
  ProgressLine progress_;
  std::vector<const simulate::Question*> order_;
  std::deque<Pending> pending_;
  std::size_t asked_ = 0;
  double whole_ = 0;
  double done_ = 0;
};

}  // namespace

Expected<void> sweep(const Questions& questions, const SimulateOptions& options, nlohmann::json& json) {
  json["absent"] = nlohmann::json::array();
  for (const Absent& each : questions.absent)
    json["absent"].push_back({{"strategy", each.strategy}, {"gpus", each.gpus}, {"reason", each.reason}});
  Sweep all(questions);
  for (const SimulatedTable& table : questions.tables) {
    std::vector<simulate::Case> cases;
    for (const auto& asked : table.cases) {
      simulate::Case& one = cases.emplace_back();
      for (std::size_t i = 0; i < asked.size(); ++i) {
        auto made = all.next();
        if (!made) return tl::unexpected(made.error());
        one.answers.push_back(std::move(*made));
      }
      for (const simulate::Answer& each : one.answers) json["results"].push_back(to_json(one, each));
    }
    all.end();
    fmt::print("{}\n", simulate::to_text(cases));
    std::fflush(stdout);
    if (auto written = write_results(json, options.json); !written) return written;
  }
  std::string last;
  for (const Absent& each : questions.absent) {
    if (each.reason == last) continue;
    fmt::print("Not simulated with {} GPUs: {}\n", each.gpus, each.reason);
    last = each.reason;
  }
  return {};
}

}  // namespace passing::cli
