// `passing status`: what a switch is doing, once or live.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/commands.h"
#include "net/controller_client.h"

namespace passing::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string address;
  bool watch = false;
  double interval = 1;
  bool json = false;
};

// Counters of /metrics without labels, and drops summed.
std::map<std::string, double> read_metrics(const std::string& text) {
  std::map<std::string, double> values;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto space = line.rfind(' ');
    const auto brace = line.find('{');
    const std::string name = line.substr(0, std::min(space, brace));
    if (brace == std::string::npos || name == "passing_drops_total")
      values[name] += std::stod(line.substr(space + 1));
  }
  return values;
}

std::string join_numbers(const json& numbers) {
  std::string text;
  for (const json& each : numbers) text += (text.empty() ? "" : ",") + std::to_string(each.get<int>());
  return text;
}

std::string table(const json& jobs, const std::map<std::string, double>& metrics,
                  const std::map<std::string, double>& before, double seconds) {
  const auto rate = [&](const char* name) {
    const auto now = metrics.find(name);
    const auto then = before.find(name);
    return now == metrics.end() || then == before.end() || seconds <= 0
               ? 0.0
               : (now->second - then->second) / seconds;
  };
  const auto value = [&](const char* name) {
    const auto found = metrics.find(name);
    return found == metrics.end() ? 0.0 : found->second;
  };
  std::string text = fmt::format(
      "in {:.3f} Gbit/s, out {:.3f} Gbit/s, {:.0f} chunks/s; in all {:.0f} chunks, {:.0f} results sent "
      "again, {:.0f} duplicates, "
      "{:.0f} drops\n\n",
      8e-9 * rate("passing_bytes_in_total"), 8e-9 * rate("passing_bytes_out_total"),
      rate("passing_results_total"), value("passing_results_total"), value("passing_retransmissions_total"),
      value("passing_duplicates_total"), value("passing_drops_total"));
  text += fmt::format("{:<24} {:<10} {:>6} {:>6} {:>6} {:>6}  {}\n", "job", "state", "epoch", "joined",
                      "lanes", "slots", "waiting for");
  for (const json& job : jobs) {
    std::string waiting = "-";
    if (!job["waiting_for"].empty()) {
      waiting = "rank " + join_numbers(job["waiting_for"]);
      if (const double since = job["waiting_seconds"].get<double>(); since > 0)
        waiting += fmt::format(" since {:.1f} s", since);
    }
    const auto state = job["state"].get<std::string>();
    text += fmt::format("{:<24} {:<10} {:>6} {:>3}/{:<2} {:>6} {:>6}  {}\n", job["name"].get<std::string>(),
                        state.substr(0, state.find(':')), job["epoch"].get<int>(), job["joined"].size(),
                        job["size"].get<int>(), job["lanes"].get<int>(), job["slots"].get<int>(), waiting);
  }
  if (jobs.empty()) text += "(no jobs)\n";
  return text;
}

int run(const Options& options) {
  const net::ControllerClient client(options.address);
  std::map<std::string, double> before;
  auto last = std::chrono::steady_clock::now();
  if (!options.watch) {
    // Rates need two looks.
    if (const auto first = client.get("/metrics")) before = read_metrics(*first);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  for (;;) {
    const auto jobs = client.get("/v1/jobs");
    const auto metrics = client.get("/metrics");
    if (!jobs || !metrics) {
      fmt::print(stderr, "passing status: {}\n", (jobs ? metrics : jobs).error().message);
      return kFailed;
    }
    const json body = json::parse(*jobs, nullptr, false);
    if (!body.is_object() || !body.contains("jobs")) {
      fmt::print(stderr, "passing status: {} does not answer like a PASSING controller\n", options.address);
      return kFailed;
    }
    const auto values = read_metrics(*metrics);
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last).count();
    if (options.json) {
      json all = body;
      all["counters"] = values;
      fmt::print("{}\n", all.dump());
    } else {
      if (options.watch && isatty(STDOUT_FILENO) != 0) fmt::print("\x1b[H\x1b[2J");
      fmt::print("switch at {}: {}", options.address, table(body["jobs"], values, before, seconds));
    }
    std::fflush(stdout);
    if (!options.watch) return 0;
    before = values;
    last = now;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
  }
}

}  // namespace

void add_status(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("status", "Show the jobs of a switch, its rates, and whom it waits for.");
  command->add_option("address", options->address, "HOST:PORT of the switch's controller")
      ->envname("PASSING_CONTROLLER")
      ->required();
  command->add_flag("--watch", options->watch, "refresh until Ctrl-C");
  command->add_option("--interval", options->interval, "seconds between refreshes")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--json", options->json,
                    "print what the controller says, with its counters: one line of JSON per refresh");
  command->footer("Example:\n  passing status --watch HOST:9001");
  command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace passing::cli
