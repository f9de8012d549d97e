#include "cli/train_crew.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/lab_parts.h"

namespace passing::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPython = "/usr/bin/python3";
constexpr std::string_view kMark = "@train ";
// Whatever happens, a run ends. Operations have deadlines of their own.
constexpr int kMostMilliseconds = 3'600'000;

// Of the package in the build tree, or below the prefix of an installation; empty: where the interpreter
// looks anyway.
std::string python_path() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  std::vector<fs::path> places = {here / "integrations/torch/python"};
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(here.parent_path() / "lib", none)) {
    if (entry.path().filename().string().starts_with("python3"))
      places.push_back(entry.path() / "dist-packages");
  }
  for (const fs::path& each : places) {
    if (fs::exists(each / "passing/train/worker.py")) return each;
  }
  return "";
}

}  // namespace

Crew::~Crew() {
  launcher_.end_from(first_);  // their output comes to this object
  for (const int each : orders_) close(each);
}

Expected<void> Crew::start() {
  if (access(kPython, X_OK) != 0) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{} is not there: training needs the distribution's Python, install python3-torch",
                    kPython));
  }
  answers_.resize(std::size_t{cluster_.plan().hosts} * cluster_.state().ranks);
  for (unsigned rank = 0; rank < answers_.size(); ++rank) {
    if (auto hired = hire(rank); !hired) return hired;
  }
  return await("here", "the start of Python");
}

Expected<void> Crew::hire(unsigned rank) {
  const std::string pipe = fmt::format("{}/orders.{}", scratch_.path(), rank);
  // Read and write: opening does not wait for the worker, and its end of file never comes.
  const int opened = mkfifo(pipe.c_str(), 0600) == 0 ? open(pipe.c_str(), O_RDWR | O_CLOEXEC) : -1;
  if (opened < 0) return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", pipe, std::strerror(errno)));
  orders_.push_back(opened);
  lab::Process process = rank_process(cluster_, rank, {kPython, "-m", "passing.train.worker", pipe});
  process.sink = [this, rank](const std::string& line) { hear(rank, line); };
  auto& environment = process.environment;
  environment["OMP_NUM_THREADS"] = "1";
  environment["GLOO_SOCKET_IFNAME"] = "eth0";
  environment["PYTHONDONTWRITEBYTECODE"] = "1";
  if (const std::string path = python_path(); !path.empty()) {
    const char* others = std::getenv("PYTHONPATH");
    environment["PYTHONPATH"] = others == nullptr ? path : path + ":" + others;
  }
  return launcher_.start(process);
}

void Crew::hear(unsigned rank, const std::string& line) {
  const json told = line.starts_with(kMark) ? json::parse(line.substr(kMark.size()), nullptr, false) : json();
  const std::string event = told.is_object() ? told.value("event", "") : "";
  if (event == "step") {
    if (progress_) progress_(told["step"].get<unsigned>());
  } else if (event == "error") {
    if (error_.empty()) error_ = fmt::format("rank {}: {}", rank, told["sentence"].get<std::string>());
  } else if (!event.empty()) {
    answers_[rank] = told;
  } else if (noise_.size() < 2000) {
    noise_ += (noise_.empty() ? "" : " | ") + line;
  }
}

Expected<void> Crew::tell(const std::string& line) {
  const std::string text = line + "\n";
  std::ranges::fill(answers_, json());
  for (const int each : orders_) {
    if (write(each, text.data(), text.size()) == static_cast<ssize_t>(text.size())) continue;
    return fail(ErrorCode::unreachable, fmt::format("a worker takes no orders: {}", std::strerror(errno)));
  }
  return {};
}

Expected<void> Crew::await(const std::string& event, const std::string& during) {
  const auto all = [&] {
    return std::ranges::all_of(answers_,
                               [&](const json& each) { return each.is_object() && each["event"] == event; });
  };
  if (launcher_.wait_until(first_, kMostMilliseconds, [&] { return !error_.empty() || all(); }) &&
      error_.empty())
    return {};
  if (launcher_.interrupted()) return fail(ErrorCode::cancelled, "interrupted");
  // One that dies takes the others along; which one it was may become known only now.
  launcher_.wait_until(launcher_.started(), 300, [] { return false; });
  const std::string ended = launcher_.ended(first_);
  std::string cause = ended.find("killed") != std::string::npos || error_.empty() ? ended : error_;
  if (cause.empty()) cause = "the workers do not answer";
  if (error_.empty() && !noise_.empty()) cause += " and said: " + noise_;
  return fail(ErrorCode::unreachable, fmt::format("{}: {}", during, cause));
}

Expected<train::Round> Crew::run(json order, const std::function<void(unsigned)>& progress) {
  const std::string strategy = order["strategy"];
  const auto steps = order["steps"].get<unsigned>();
  order["store"] = fmt::format("{}/store.{}", scratch_.path(), ++runs_);
  progress_ = progress;
  if (auto told = tell(order.dump()); !told) return tl::unexpected(told.error());
  if (auto ready = await("ready", strategy); !ready) return tl::unexpected(ready.error());
  double compute = 0;
  for (const json& each : answers_) compute = std::max(compute, each["compute_seconds"].get<double>());
  const auto before = cluster_.links();
  if (!before) return tl::unexpected(before.error());
  if (auto told = tell("go"); !told) return tl::unexpected(told.error());
  if (auto done = await("done", strategy); !done) return tl::unexpected(done.error());
  const auto after = cluster_.links();
  if (!after) return tl::unexpected(after.error());
  return sum_up(compute, busiest(*before, *after), steps);
}

Expected<train::Round> Crew::sum_up(double compute, const Carried& carried, unsigned steps) const {
  train::Round round{.compute_seconds = compute,
                     .busiest = carried.bytes / steps,
                     .busiest_link = carried.link,
                     .losses = answers_[0]["losses"].get<std::vector<double>>(),
                     .ends = answers_[0]["ends"].get<std::vector<double>>()};
  for (std::size_t rank = 1; rank < answers_.size(); ++rank) {
    const json& answer = answers_[rank];
    if (answer["state"] != answers_[0]["state"]) {
      return fail(ErrorCode::disagreement,
                  fmt::format("rank {} has other parameters than rank 0 after the last step", rank));
    }
    for (std::size_t i = 0; i < round.losses.size(); ++i)
      round.losses[i] += answer["losses"][i].get<double>();
    for (std::size_t i = 0; i < round.ends.size(); ++i)
      round.ends[i] = std::max(round.ends[i], answer["ends"][i].get<double>());
  }
  for (double& each : round.losses) each /= static_cast<double>(answers_.size());
  round.step_seconds = round.ends.back() / steps;
  return round;
}

}  // namespace passing::cli
