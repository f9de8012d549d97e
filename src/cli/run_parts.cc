#include "cli/run_parts.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

const char* passing_commit();

namespace passing::cli {

namespace fs = std::filesystem;

nlohmann::json about_run(const std::string& format, const std::string& command) {
  utsname system{};
  uname(&system);
  std::string cpu = "unknown";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) cpu = line.substr(line.find(':') + 2);
  }
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%FT%TZ", std::gmtime(&now));
  return {{"format", format},
          {"version", 1},
          {"date", date},
          {"commit", passing_commit()},
          {"machine",
           {{"cpu", cpu},
            {"cores", std::thread::hardware_concurrency()},
            {"kernel", fmt::format("{} {}", system.sysname, system.release)},
            {"memory_bytes", static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))}}},
          {"command", command},
          {"results", nlohmann::json::array()}};
}

Expected<void> write_results(const nlohmann::json& results, const std::string& path) {
  if (path.empty()) return {};
  std::ofstream file(path);
  file << results.dump(1) << "\n";
  file.flush();
  if (file) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("--json: cannot write '{}'", path));
}

std::string command_line(int argc, char** argv) {
  std::string command = "passing";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  return command;
}

Carried busiest(const std::vector<lab::Link>& before, const std::vector<lab::Link>& after) {
  Carried most;
  for (std::size_t i = 0; i < after.size(); ++i) {
    for (const auto& [then, now, way] :
         {std::tuple{before[i].up, after[i].up, "up"}, {before[i].down, after[i].down, "down"}}) {
      const auto bytes = static_cast<double>(now.bytes - then.bytes);
      if (after[i].kind == lab::LinkKind::rack) most.uplink = std::max(most.uplink, bytes);
      if (bytes <= most.bytes) continue;
      most.bytes = bytes;
      most.link = fmt::format("{} {}", after[i].name, way);
    }
  }
  return most;
}

Scratch::Scratch() {
  std::string name = fs::temp_directory_path() / "passing-run-XXXXXX";
  if (mkdtemp(name.data()) != nullptr) path_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace passing::cli
