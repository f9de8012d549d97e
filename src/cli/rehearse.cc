// `passing rehearse`: real endpoints and the real aggregator over a simulated network.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "cli/commands.h"
#include "cli/progress.h"
#include "rehearse/world.h"

namespace passing::cli {
namespace {

using rehearse::NetworkPlan;
using rehearse::Outcome;
using rehearse::Scenario;
using rehearse::World;

struct Options {
  std::uint64_t seed = 0;
  std::uint64_t seeds = 1;
  bool trace = false;
  bool demo = false;
  std::uint16_t members = 8;
  std::uint32_t lanes = 2;
  std::uint32_t slots = 128;
  std::uint64_t elements = 1'000'000;
  unsigned operations = 4;
  double loss = 5;  // percent
};

// Runs scenarios from seeds, as the tests do. A failing seed says how to see it again.
int run_seeds(const Options& options) {
  const bool one = options.seeds == 1;
  std::uint64_t failed = 0;
  ProgressLine progress(fmt::format("{} seeds", options.seeds));
  for (std::uint64_t seed = options.seed; seed < options.seed + options.seeds; ++seed) {
    const Scenario scenario = Scenario::from_seed(seed);
    if (one) fmt::print("{}\n", scenario.describe());
    World world(scenario, options.trace ? [](const std::string& line) { fmt::print("{}\n", line); }
                                        : rehearse::TraceSink{});
    const Outcome outcome = world.run();
    if (!outcome.problem.empty()) {
      ++failed;
      fmt::print("FAILED {}\n  {}\n  replay: passing rehearse --seed {} --trace\n", scenario.describe(),
                 outcome.problem, seed);
    } else if (one) {
      fmt::print(
          "as it must be: {} operations done, {} failed as they should, {} chunks, {} retransmissions, "
          "{:.3f} s of virtual time\n",
          outcome.operations, outcome.failures, outcome.chunks, outcome.retransmissions + outcome.timeouts,
          static_cast<double>(outcome.ended) / kSecond);
    }
    if (!one) progress.show(static_cast<double>(seed - options.seed) / static_cast<double>(options.seeds));
  }
  progress.end();
  if (!one) fmt::print("{} seeds from {}: {} failed\n", options.seeds, options.seed, failed);
  return failed == 0 ? 0 : kFailed;
}

Scenario demo_scenario(const Options& options, double loss) {
  Scenario s;
  s.seed = options.seed;
  s.members = options.members;
  s.lanes = options.lanes;
  s.slots = options.slots;
  s.elements = 352;
  s.skew = kMillisecond;
  s.network = NetworkPlan{.loss = loss, .duplication = loss / 4, .jitter = 10 * kMicrosecond};
  for (unsigned i = 0; i < options.operations; ++i) {
    s.operations.push_back({.reduction = numeric::Reduction::average,
                            .elements = options.elements,
                            .divisor = options.members,
                            .in_place = true});
  }
  return s;
}

// One job under growing loss: every element on every member checked against the exact sum.
int run_demo(const Options& options) {
  Scenario probe = demo_scenario(options, 0);
  const endpoint::Config limits{.members = probe.members,
                                .lanes = probe.lanes,
                                .slots = probe.slots,
                                .switch_addresses = std::vector<Address>(probe.lanes),
                                .names = {}};
  if (const auto valid = limits.validate(); !valid) {
    fmt::print(stderr, "passing rehearse: {}\n", valid.error().message);
    return kBadInput;
  }
  fmt::print(
      "A simulated job: {} members, {} lanes x {} slots, {} all-reduces of {} float32 each;\n"
      "every element on every member is compared with the exact result, bit for bit.\n\n",
      options.members, options.lanes, options.slots, options.operations, options.elements);
  std::string table = fmt::format("{:>7} {:>10} {:>9} {:>9} {:>9} {:>12} {:>12}  {}\n", "loss", "chunks",
                                  "lost", "sent", "timers", "virtual", "real", "result");
  table += fmt::format("{:>7} {:>10} {:>9} {:>9} {:>9} {:>12} {:>12}\n", "", "", "packets", "again",
                       "expired", "time", "time");
  bool good = true;
  for (const double share : {0.0, 0.2, 1.0}) {
    const double loss = options.loss / 100 * share;
    ProgressLine progress(fmt::format("loss {:.1f} %", 100 * loss));
    const auto begin = std::chrono::steady_clock::now();
    World world(demo_scenario(options, loss));
    const Outcome outcome = world.run([&](double done) { progress.show(done); });
    progress.end();
    const std::chrono::duration<double> real = std::chrono::steady_clock::now() - begin;
    good = good && outcome.problem.empty();
    table += fmt::format("{:>5.1f} % {:>10} {:>9} {:>9} {:>9} {:>9.1f} ms {:>10.2f} s  {}\n", 100 * loss,
                         outcome.chunks, outcome.lost, outcome.retransmissions, outcome.timeouts,
                         static_cast<double>(outcome.ended) / kMillisecond, real.count(),
                         outcome.problem.empty() ? "bit-exact on every member" : outcome.problem);
  }
  fmt::print("{}", table);
  return good ? 0 : kFailed;
}

}  // namespace

int rehearsal() { return run_demo(Options{}); }

void add_rehearse(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "rehearse",
      "Run real endpoints against the real aggregator over a simulated network.\n\nA seed decides "
      "everything, as in the tests; or --demo runs a job of your choice under loss.");
  command->add_option("--seed", options->seed, "first seed. Geometry, network and faults follow from it")
      ->check(whole_number(0, 1'000'000'000'000'000'000))
      ->capture_default_str();
  command->add_option("--seeds", options->seeds, "how many seeds to run, from --seed on")
      ->check(whole_number(1, 1'000'000'000))
      ->capture_default_str();
  command->add_flag("--trace", options->trace, "show every packet and event");
  command->add_flag("--demo", options->demo, "run one job as set below, at three rates of loss");
  command->add_option("--members", options->members, "demo: members of the job")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  command->add_option("--lanes", options->lanes, "demo: lanes per member")
      ->check(whole_number(1, 64))
      ->capture_default_str();
  command->add_option("--slots", options->slots, "demo: slots per lane")
      ->check(whole_number(0, UINT32_MAX).description("a power of two from 1 to 32768"))
      ->capture_default_str();
  command->add_option("--elements", options->elements, "demo: elements of each tensor")
      ->check(whole_number(0, 100'000'000))
      ->capture_default_str();
  command->add_option("--operations", options->operations, "demo: all-reduces in a row")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_option("--loss", options->loss, "demo: highest loss, in percent")
      ->check(CLI::Range(0.0, 50.0))
      ->capture_default_str();
  // What is set for the demo means nothing to a seed, and the other way round.
  CLI::Option* demo = command->get_option("--demo");
  for (const char* name : {"--members", "--lanes", "--slots", "--elements", "--operations", "--loss"}) {
    command->get_option(name)->needs(demo);
  }
  demo->excludes(command->get_option("--trace"))->excludes(command->get_option("--seeds"));
  command->footer(
      "Examples:\n  passing rehearse --seed 7 --trace\n  passing rehearse --demo --members 8 --loss 5");
  command->callback([options] {
    const int status = options->demo ? run_demo(*options) : run_seeds(*options);
    if (status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace passing::cli
