#include "passing/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "net/limits.h"
#include "wire/wire.h"

namespace passing {
namespace {

// What is derived from a job's name ("JOB.rendezvous") must suit the controller too.
constexpr std::size_t kLongestJob = net::kLongestName - 28;
constexpr std::uint32_t kMostRanks = 65535;
constexpr double kLongestTimeout = 1e9;  // seconds; in nanoseconds it still fits 64 bits

auto refuse(std::string sentence) { return fail(ErrorCode::invalid_argument, std::move(sentence)); }

// Which variables say where a process stands.
struct Source {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr std::array kSources = {
    Source{"PASSING_RANK", "PASSING_SIZE", "PASSING_LOCAL_RANK", "PASSING_LOCAL_SIZE"},
    Source{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},  // torchrun
    Source{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
           "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Source{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
    Source{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};
constexpr const Source& kOwn = kSources[0];

// A variable that is set to nothing counts as not set.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? std::optional<std::string>(value) : std::nullopt;
}

void read_text(const char* name, std::string& setting) { setting = variable(name).value_or(setting); }

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Expected<void> read_number(const char* name, std::uint32_t& setting) {
  const auto text = variable(name);
  if (!text || parse(*text, setting)) return {};
  return refuse(fmt::format("{} is '{}': must be a whole number from 0 to {}", name, *text, UINT32_MAX));
}

Expected<void> read_seconds(const char* name, std::chrono::milliseconds& setting) {
  const auto text = variable(name);
  if (!text) return {};
  double seconds = 0;
  if (!parse(*text, seconds) || !(seconds > 0 && seconds <= kLongestTimeout)) {  // NaN is neither
    return refuse(fmt::format("{} is '{}': must be a number of seconds above 0, at most {:.0f}", name, *text,
                              kLongestTimeout));
  }
  setting = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1e3)));
  return {};
}

// Two variables that make sense only together: whether both are set.
Expected<bool> both(const char* one, const char* other) {
  const auto first = variable(one);
  const auto second = variable(other);
  if (first.has_value() == second.has_value()) return first.has_value();
  return refuse(fmt::format("{} is '{}' but {} is not set: set both or neither", first ? one : other,
                            first ? *first : *second, first ? other : one));
}

// The first source that is complete. Half a launcher is passed over if a whole one follows: a Slurm
// allocation sets SLURM_NTASKS also for processes that mpiexec starts. Half of our own variables is a mistake
// in any case.
Expected<const Source*> find_source() {
  std::optional<Error> half;
  for (const Source& source : kSources) {
    const auto complete = both(source.rank, source.size);
    if (complete && *complete) return &source;
    if (complete) continue;
    if (!half) half = complete.error();
    if (&source == &kOwn) break;
  }
  if (half) return tl::unexpected(*half);
  return refuse(
      "nothing says which rank this process is: set PASSING_RANK and PASSING_SIZE (0 and 1 for a process of "
      "its "
      "own), or start it with torchrun, mpirun or srun");
}

// How many tasks Slurm puts on a node: "4(x2),3" is four on each of the first two, three on the next.
std::optional<std::uint32_t> tasks_on(std::uint32_t node, std::string_view text) {
  std::uint32_t tasks = 0;
  for (std::uint64_t first = 0; first <= node && !text.empty();) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t bracket = item.find("(x");
    std::uint32_t nodes = 1;
    if (!parse(item.substr(0, bracket), tasks)) return std::nullopt;
    if (bracket != std::string_view::npos &&
        (item.back() != ')' || !parse(item.substr(bracket + 2, item.size() - bracket - 3), nodes))) {
      return std::nullopt;
    }
    first += nodes;
  }
  return tasks;
}

// Slurm's counts are lists by node. The step's is exact, but only --ntasks-per-node sets the other one
// everywhere.
Expected<void> read_slurm_local_size(std::uint32_t& setting) {
  std::uint32_t node = 0;
  if (auto read = read_number("SLURM_NODEID", node); !read) return read;
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    const auto text = variable(name);
    if (!text) continue;
    const auto tasks = tasks_on(node, *text);
    if (!tasks) return refuse(fmt::format("{} is '{}': must be a count like 4, or 4(x2),3", name, *text));
    setting = *tasks;
    return {};
  }
  return {};
}

Expected<void> read_local(const Source& launcher, Config& config) {
  const auto own = both(kOwn.local_rank, kOwn.local_size);
  if (!own) return tl::unexpected(own.error());
  const Source& source = *own ? kOwn : launcher;
  if (auto read = read_number(source.local_rank, config.local_rank); !read) return read;
  config.local_size = config.local_rank + 1;  // where nobody says more
  if (std::string_view(source.rank) == "SLURM_PROCID") return read_slurm_local_size(config.local_size);
  return read_number(source.local_size, config.local_size);
}

Expected<void> read_ranks(Config& config) {
  const auto source = find_source();
  if (!source) return tl::unexpected(source.error());
  if (auto read = read_number((*source)->rank, config.rank); !read) return read;
  if (auto read = read_number((*source)->size, config.size); !read) return read;
  return read_local(**source, config);
}

bool fits_a_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

// A launcher's name as ours, with `suffix` uncut: it tells a restart from the run before.
std::string as_job(const std::string& name, const std::string& suffix = "") {
  std::string job = name.substr(0, kLongestJob - std::min(kLongestJob, suffix.size())) + suffix;
  job.resize(std::min(job.size(), kLongestJob));
  for (char& c : job) c = fits_a_name(c) ? c : '-';
  return job;
}

// torchrun says "none" for runs without an id: then the master's address tells runs apart.
std::string torchrun_job(const std::string& id) {
  const auto address = variable("MASTER_ADDR");
  const auto port = variable("MASTER_PORT");
  const std::string suffix = ".r" + variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return as_job(id == "none" && address && port ? *address + "-" + *port : id, suffix);
}

std::string job_from_environment() {
  if (const auto job = variable("PASSING_JOB")) return *job;
  if (const auto id = variable("TORCHELASTIC_RUN_ID")) return torchrun_job(*id);
  if (const auto space = variable("PMIX_NAMESPACE")) return as_job(*space);
  if (const auto job = variable("SLURM_JOB_ID")) {
    const auto step = variable("SLURM_STEP_ID");
    return as_job(*job, step ? "." + *step : "");
  }
  return Config().job;
}

Expected<void> read_token(std::string& token) {
  read_text("PASSING_TOKEN", token);
  const auto path = variable("PASSING_TOKEN_FILE");
  if (!token.empty() || !path) return {};
  std::ifstream file(*path, std::ios::binary);
  std::getline(file, token, '\0');  // a directory opens, but does not read
  if (!file.is_open() || file.bad()) {
    return refuse(fmt::format(
        "PASSING_TOKEN_FILE is '{}': cannot be read; name a file that this user may read", *path));
  }
  token.erase(token.find_last_not_of("\r\n") + 1);
  return {};
}

Expected<void> check_ranks(const Config& c) {
  if (c.size < 1 || c.size > kMostRanks) {
    return refuse(fmt::format("size is {}: must be 1 to {} (PASSING_SIZE)", c.size, kMostRanks));
  }
  if (c.rank >= c.size) {
    return refuse(fmt::format("rank is {}: must be 0 to {} (PASSING_RANK)", c.rank, c.size - 1));
  }
  if (c.local_rank >= c.local_size) {
    return refuse(fmt::format("local_rank is {}: must be below local_size, {} (PASSING_LOCAL_RANK)",
                              c.local_rank, c.local_size));
  }
  if (c.job.empty() || c.job.size() > kLongestJob || !std::all_of(c.job.begin(), c.job.end(), fits_a_name)) {
    return refuse(
        fmt::format("job is '{}': use 1 to {} letters, digits, dots, dashes or underscores (PASSING_JOB)",
                    c.job, kLongestJob));
  }
  return {};
}

// The one that an empty setting stands for, if it is empty.
std::string chosen_strategy(const Config& c) {
  if (!c.strategy.empty()) return c.strategy;
  return c.controller.empty() ? "ring" : "in_network";
}

Expected<void> check_strategy(const Config& c) {
  const std::string strategy = chosen_strategy(c);
  const auto known = strategies();
  if (std::find(known.begin(), known.end(), strategy) == known.end()) {
    return refuse(
        fmt::format("strategy is '{}': must be {} (PASSING_STRATEGY)", strategy, fmt::join(known, " or ")));
  }
  if (strategy != "in_network") return {};
  if (c.controller.empty()) {
    return refuse(
        "strategy is 'in_network' but controller is empty: set PASSING_CONTROLLER to HOST:PORT of the "
        "switch, or "
        "PASSING_STRATEGY to ring");
  }
  if (c.size > PASSING_MAX_MEMBERS) {
    return refuse(
        fmt::format("size is {}: the strategy 'in_network' takes at most {} ranks; set PASSING_STRATEGY "
                    "to ring",
                    c.size, PASSING_MAX_MEMBERS));
  }
  return {};
}

Expected<void> check_rendezvous(const Config& c) {
  const bool elsewhere = c.exchange || !c.directory.empty() || c.size == 1;
  if (!elsewhere && c.controller.empty()) {
    return refuse(
        fmt::format("size is {} but nothing says how ranks find each other: set PASSING_DIRECTORY to a "
                    "directory that all share, or PASSING_CONTROLLER to HOST:PORT of the switch",
                    c.size));
  }
  if (!elsewhere && c.size > net::kMostRendezvous) {
    return refuse(
        fmt::format("size is {}: a controller brings at most {} ranks together; set PASSING_DIRECTORY to "
                    "a directory that all share",
                    c.size, net::kMostRendezvous));
  }
  if ((!elsewhere || chosen_strategy(c) == "in_network") && c.token.size() < net::kShortestToken) {
    return refuse(
        fmt::format("token has {} characters: the controller wants at least {}, the same on all ranks "
                    "(PASSING_TOKEN or PASSING_TOKEN_FILE)",
                    c.token.size(), net::kShortestToken));
  }
  return {};
}

Expected<void> check_timeout(const char* name, std::chrono::milliseconds timeout, const char* set_by) {
  const double seconds = std::chrono::duration<double>(timeout).count();
  if (seconds > 0 && seconds <= kLongestTimeout) return {};
  return refuse(fmt::format("{} is {} seconds: must be above 0, at most {:.0f} ({})", name, seconds,
                            kLongestTimeout, set_by));
}

Expected<void> check_limits(const Config& c) {
  if (auto good = check_timeout("timeout", c.timeout, "PASSING_TIMEOUT"); !good) return good;
  if (auto good = check_timeout("create_timeout", c.create_timeout, "PASSING_CREATE_TIMEOUT"); !good)
    return good;
  if (c.lanes > PASSING_MAX_LANES) {
    return refuse(fmt::format("lanes is {}: must be 1 to {}, or 0 for the switch's choice (PASSING_LANES)",
                              c.lanes, PASSING_MAX_LANES));
  }
  if (c.slots != 0 && (!std::has_single_bit(c.slots) || c.slots > PASSING_MAX_SLOTS)) {
    return refuse(
        fmt::format("slots is {}: must be a power of two from 1 to {}, or 0 for the default "
                    "(PASSING_SLOTS)",
                    c.slots, PASSING_MAX_SLOTS));
  }
  return {};
}

}  // namespace

Expected<Config> Config::from_environment() {
  Config config;
  config.job = job_from_environment();
  read_text("PASSING_HOST", config.host);
  read_text("PASSING_STRATEGY", config.strategy);
  read_text("PASSING_DIRECTORY", config.directory);
  read_text("PASSING_CONTROLLER", config.controller);
  const auto read =
      read_ranks(config)
          .and_then([&] { return read_token(config.token); })
          .and_then([&] { return read_seconds("PASSING_TIMEOUT", config.timeout); })
          .and_then([&] { return read_seconds("PASSING_CREATE_TIMEOUT", config.create_timeout); })
          .and_then([&] { return read_number("PASSING_LANES", config.lanes); })
          .and_then([&] { return read_number("PASSING_SLOTS", config.slots); });
  if (!read) return tl::unexpected(read.error());
  return config;
}

Expected<void> Config::validate() const {
  return check_ranks(*this)
      .and_then([&] { return check_strategy(*this); })
      .and_then([&] { return check_rendezvous(*this); })
      .and_then([&] { return check_limits(*this); });
}

std::vector<std::string> strategies() { return {"ring", "in_network"}; }

}  // namespace passing
