// One sample of `passing bench`: all ranks of a contender, started in a lab.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/bench_parts.h"
#include "cli/lab_parts.h"
#include "cli/run_parts.h"
#include "lab/shell.h"
#include "passing/config.h"

namespace passing::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMpirun = "mpirun.openmpi";
// Whatever happens, a sample ends. Ours have deadlines of their own.
constexpr const char* kMostSeconds = "900";

struct Peer {
  const char* name;
  const char* library;
  const char* algorithm;
};

constexpr Peer kPeers[] = {
    {"gloo", "gloo", "ring"},
    {"gloo_bcube", "gloo", "bcube"},
    {"gloo_hd", "gloo", "halving_doubling"},
    {"openmpi", "open_mpi", ""},
    {"openmpi_ring", "open_mpi", "ring"},
    {"openmpi_polling", "open_mpi", "polling"},
};

// Beside this program, or where it is installed.
std::optional<fs::path> find_program(const std::string& name) {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& directory : {here, here.parent_path() / "libexec" / "passing"}) {
    if (fs::exists(directory / name)) return directory / name;
  }
  return std::nullopt;
}

bool on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const auto& directory : CLI::detail::split(path == nullptr ? "/usr/bin" : path, ':')) {
    if (fs::exists(fs::path(directory) / name)) return true;
  }
  return false;
}

// Settings found by measurement, so that Open MPI does its best between namespaces: docs/benchmarks.md.
std::vector<std::string> mpirun(const Contender& contender, const lab::Cluster& cluster,
                                std::vector<std::string> command) {
  const unsigned ranks = cluster.state().ranks;
  std::string hosts;
  for (unsigned h = 0; h < cluster.plan().hosts; ++h)
    hosts += fmt::format("{}{}:{}", h == 0 ? "" : ",", lab::Map::host_ip(h), ranks);
  const bool polling = contender.algorithm == "polling";
  std::vector<std::string> words = {kMpirun,     "--allow-run-as-root",
                                    "-np",       std::to_string(cluster.plan().hosts * ranks),
                                    "--host",    hosts,
                                    "--bind-to", "none",
                                    "-x",        "PASSING_LAB",
                                    "-x",        "PASSING_LAB_NAME"};
  const auto set = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {"--mca", name, value});
  };
  set("pml", "ob1");
  set("btl", "tcp,self,vader");
  set("btl_tcp_if_include", "eth0");
  set("oob_tcp_if_include", "eth0");
  set("plm_rsh_no_tree_spawn", "1");
  set("plm_rsh_agent", fs::read_symlink("/proc/self/exe").string() + " lab agent");
  set("mpi_yield_when_idle", polling ? "0" : "1");
  set("coll_tuned_use_dynamic_rules", "1");
  if (contender.algorithm == "ring") set("coll_tuned_allreduce_algorithm", "4");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

/// What the ranks of a sample say.
struct Told {
  std::vector<nlohmann::json> rows;
  std::string noise;
  std::string absent;

  void hear(const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("absent")) {
      absent = json["absent"].get<std::string>();
    } else if (json.is_object() && json.value("ok", false)) {
      rows.push_back(json);
    } else if (noise.size() < 2000) {
      noise += (noise.empty() ? "" : " | ") + line;
    }
  }
};

Expected<void> start(const Contender& contender, const Work& work, const lab::Cluster& cluster,
                     lab::Launcher& launcher, const std::string& scratch, Told& told) {
  static unsigned samples = 0;
  const std::string job = fmt::format("bench{}", ++samples);
  const auto program = program_of(contender);
  if (!program) return tl::unexpected(program.error());
  const std::vector<std::string> command = {"timeout",
                                            "-k",
                                            "5",
                                            kMostSeconds,
                                            program->string(),
                                            "all_reduce",
                                            std::to_string(work.bytes / 4),
                                            std::to_string(work.repeat),
                                            std::to_string(work.warm_up),
                                            std::to_string(work.in_flight)};
  const bool mpi = contender.library == "open_mpi";
  for (unsigned rank = 0; rank < (mpi ? 1 : cluster.plan().hosts * cluster.state().ranks); ++rank) {
    lab::Process process = rank_process(cluster, rank, mpi ? mpirun(contender, cluster, command) : command);
    process.sink = [&told](const std::string& line) { told.hear(line); };
    auto& environment = process.environment;
    if (mpi) {
      // Its ranks must not believe that they are those of another launcher.
      environment = environment_of(cluster.state());
    } else if (contender.peer()) {
      environment["PEER_ALGORITHM"] = contender.algorithm;
      environment["PASSING_DIRECTORY"] = scratch;
    } else {
      environment["PASSING_STRATEGY"] = contender.strategy;
      environment["PASSING_LOCAL_DOMAIN"] = contender.rack ? "rack" : "host";
      environment["PASSING_LINK_RATE"] = link_rate(cluster.plan(), contender.rack);
      environment["PASSING_JOB"] = job;
    }
    if (auto started = launcher.start(process); !started) return started;
  }
  return {};
}

// How long programs of a switch in the kernel have run, if that is measured.
double program_seconds(const lab::Cluster& cluster) {
  if (!cluster.plan().in_kernel()) return 0;
  const auto said = lab::run({"ip", "netns", "exec", cluster.switch_namespace(),
                              fs::read_symlink("/proc/self/exe"), "status", "--json", controller_address()});
  const auto status = said ? nlohmann::json::parse(*said, nullptr, false) : nlohmann::json();
  return status.is_object() ? status["counters"].value("passing_program_seconds_total", 0.0) : 0;
}

}  // namespace

std::vector<std::string> peers() {
  std::vector<std::string> names;
  for (const Peer& each : kPeers) names.emplace_back(each.name);
  return names;
}

Expected<Contender> contender(const std::string& name) {
  for (const Peer& each : kPeers) {
    if (name == each.name)
      return Contender{.name = name, .strategy = name, .library = each.library, .algorithm = each.algorithm};
  }
  const bool rack = name.ends_with(":rack");
  const std::string strategy = rack ? name.substr(0, name.size() - 5) : name;
  const auto known = strategies();
  if (std::ranges::find(known, strategy) == known.end()) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no strategy: there are {}; and {}", name,
                                                         fmt::join(known, ", "), fmt::join(peers(), ", ")));
  }
  return Contender{.name = name, .strategy = strategy, .library = "passing", .algorithm = {}, .rack = rack};
}

Expected<fs::path> program_of(const Contender& contender) {
  const std::string name = "peer_" + contender.library;
  const auto found = find_program(name);
  if (!found) {
    return fail(ErrorCode::no_capacity,
                fmt::format("{} is not there: {}", name,
                            contender.library == "gloo"       ? "install libgloo-dev and build again"
                            : contender.library == "open_mpi" ? "install libopenmpi-dev and build again"
                                                              : "build or install all of PASSING"));
  }
  if (contender.library == "open_mpi" && !on_path(kMpirun))
    return fail(ErrorCode::no_capacity, fmt::format("{} is not there: install openmpi-bin", kMpirun));
  return *found;
}

Expected<benchmark::Sample> run_sample(const Contender& contender, const Work& work,
                                       const lab::Cluster& cluster, lab::Launcher& launcher) {
  const Scratch scratch;
  Told told;
  const auto before = cluster.links();
  if (!before) return tl::unexpected(before.error());
  const std::size_t first = launcher.started();
  const double services = launcher.cpu_seconds(0, first);
  const double programs = program_seconds(cluster);
  const auto started = start(contender, work, cluster, launcher, scratch.path(), told);
  const int status = started ? launcher.wait_from(first) : 0;
  launcher.end_from(first);  // what they say goes to a variable here
  if (!started) return tl::unexpected(started.error());
  if (launcher.interrupted()) return fail(ErrorCode::cancelled, "interrupted");
  const auto after = cluster.links();
  // The links have counted on: this answer is another one.
  // cppcheck-suppress identicalConditionAfterEarlyExit
  if (!after) return tl::unexpected(after.error());
  if (!told.absent.empty()) return fail(ErrorCode::no_capacity, told.absent);
  const std::size_t world = std::size_t{cluster.plan().hosts} * cluster.state().ranks;
  if (status != 0 || told.rows.size() != world) {
    return fail(ErrorCode::disagreement,
                fmt::format("{} of {} ranks ended with right results, status {}: {}", told.rows.size(), world,
                            status, told.noise.empty() ? "they said nothing" : told.noise));
  }
  const auto operations = told.rows.front()["operations"].get<double>();
  const auto repeat = static_cast<double>(work.repeat);
  benchmark::Sample sample;
  for (const auto& row : told.rows) {
    sample.seconds = std::max(sample.seconds, row["total_seconds"].get<double>() / repeat);
    sample.latency = std::max(sample.latency, row["median_seconds"].get<double>());
    sample.cpu += row["cpu_seconds"].get<double>() / repeat;
  }
  sample.machine_cpu = told.rows.front()["machine_cpu_seconds"].get<double>() / repeat;
  sample.program = (program_seconds(cluster) - programs) / operations;
  if (!contender.peer()) sample.cpu += (launcher.cpu_seconds(0, first) - services) / operations;
  const Carried most = busiest(*before, *after);
  sample.busiest = most.bytes / operations;
  sample.busiest_link = most.link;
  sample.uplink = most.uplink / operations;
  return sample;
}

}  // namespace passing::cli
