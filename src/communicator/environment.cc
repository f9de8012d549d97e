// Settings from what a launcher says in the environment.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "communicator/settings.h"

namespace passing {
namespace {

auto refuse(std::string sentence) { return fail(ErrorCode::invalid_argument, std::move(sentence)); }

// A variable that is set to nothing counts as not set.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? std::optional<std::string>(value) : std::nullopt;
}

// A launcher's name as ours, with `suffix` uncut: it tells a restart from the run before.
std::string as_job(const std::string& name, const std::string& suffix) {
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

std::string slurm_job(const std::string& id) {
  const auto step = variable("SLURM_STEP_ID");
  return as_job(id, step ? "." + *step : "");
}

// Launchers run inside each other, and what the outer one says is still there: the nearest to the process
// comes first. All others run inside a Slurm allocation. MPICH's mpiexec even starts its proxies by srun, so
// that each rank has the variables of a step, with the rank of its proxy. But srun with PMI2 sets PMI_RANK
// itself, and no local rank beside it: then Slurm knows more.
constexpr Launcher kLaunchers[] = {
    {"PASSING", "PASSING_RANK", "PASSING_SIZE", "PASSING_LOCAL_RANK", "PASSING_LOCAL_SIZE", "PASSING_JOB",
     [](const std::string& job) { return job; }, ""},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", torchrun_job,
     "TORCHELASTIC_RESTART_COUNT, MASTER_ADDR, MASTER_PORT"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE",
     [](const std::string& space) { return as_job(space, ""); }, ""},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", nullptr, "",
     "MPI_LOCALRANKID"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID",
     slurm_job, "SLURM_STEP_ID, SLURM_NODEID, SLURM_NTASKS_PER_NODE"},
    {"others with PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", nullptr, ""},
};
constexpr const Launcher& kOwn = kLaunchers[0];
constexpr const Launcher& kTorchrun = kLaunchers[1];
constexpr const Launcher& kSlurm = kLaunchers[4];

void read_text(const char* name, std::string& setting) { setting = variable(name).value_or(setting); }

Expected<void> read_number(const char* name, std::uint32_t& setting) {
  const auto text = variable(name);
  if (!text || parse_number(*text, setting)) return {};
  return refuse(fmt::format("{} is '{}': must be a whole number from 0 to {}", name, *text, UINT32_MAX));
}

// Two variables that make sense only together: whether both are set.
Expected<bool> both(const char* one, const char* other) {
  const auto first = variable(one);
  const auto second = variable(other);
  if (first.has_value() == second.has_value()) return first.has_value();
  return refuse(fmt::format("{} is '{}' but {} is not set: set both or neither", first ? one : other,
                            first ? *first : *second, first ? other : one));
}

// Whether srun has started this very process. A child of the task may be anybody's: a shell's, or that of
// MPICH's proxy. A batch script has a task, too, but no step.
bool is_task_of_slurm() {
  return variable(kSlurm.rank) && variable(kSlurm.size) && variable("SLURM_STEP_ID") &&
         variable("SLURM_TASK_PID") == std::to_string(getpid());
}

// The first source that is complete. Half a launcher is passed over if a whole one follows: a Slurm
// allocation sets SLURM_NTASKS also for processes that mpiexec starts. Half of our own variables is a mistake
// in any case.
Expected<const Launcher*> find_source() {
  std::optional<Error> half;
  for (const Launcher& source : kLaunchers) {
    if (source.sign != nullptr && !variable(source.sign)) continue;
    const auto complete = both(source.rank, source.size);
    if (complete && *complete) return &source;
    // Then only what may be set by hand is nearer: srun may run inside another launcher, too.
    if (&source == &kTorchrun && is_task_of_slurm()) return &kSlurm;
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
    if (!parse_number(item.substr(0, bracket), tasks)) return std::nullopt;
    if (bracket != std::string_view::npos &&
        (item.back() != ')' || !parse_number(item.substr(bracket + 2, item.size() - bracket - 3), nodes))) {
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

Expected<void> read_local(const Launcher& launcher, Config& config) {
  const auto own = both(kOwn.local_rank, kOwn.local_size);
  if (!own) return tl::unexpected(own.error());
  const Launcher& source = *own ? kOwn : launcher;
  if (auto read = read_number(source.local_rank, config.local_rank); !read) return read;
  config.local_size = config.local_rank + 1;  // where nobody says more
  if (&source == &kSlurm) return read_slurm_local_size(config.local_size);
  return read_number(source.local_size, config.local_size);
}

Expected<void> read_ranks(Config& config) {
  const auto source = find_source();
  if (!source) return tl::unexpected(source.error());
  if (auto read = read_number((*source)->rank, config.rank); !read) return read;
  if (auto read = read_number((*source)->size, config.size); !read) return read;
  return read_local(**source, config);
}

std::string job_from_environment() {
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.name_of == nullptr) continue;
    if (const auto job = variable(launcher.job)) return launcher.name_of(*job);
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

// Every setting has a variable. Those that more may say are read above.
Expected<void> read_plain(Config& config) {
  for (const Setting& each : settings()) {
    if (each.read_apart) continue;
    const std::string set_by = variable_of(each.name);
    const auto value = variable(set_by.c_str());
    if (!value) continue;
    if (auto set = set_by_name(config, each.name, value->c_str(), set_by.c_str()); !set) return set;
  }
  return {};
}

}  // namespace

std::span<const Launcher> launchers() { return kLaunchers; }

Expected<Config> Config::from_environment() {
  Config placed;
  if (auto read = read_ranks(placed); !read) return tl::unexpected(read.error());
  auto config = from_environment(placed.rank, placed.size);
  if (!config) return config;
  config->local_rank = placed.local_rank;
  config->local_size = placed.local_size;
  return config;
}

Expected<Config> Config::from_environment(std::uint32_t rank, std::uint32_t size) {
  Config config;
  config.rank = rank;
  config.size = size;
  config.job = job_from_environment();
  const auto read = read_plain(config).and_then([&] { return read_token(config.token); });
  if (!read) return tl::unexpected(read.error());
  return config;
}

}  // namespace passing
