#include "names.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace passing::lab {
namespace fs = std::filesystem;

std::string hosts_text(const Map& map, const std::string& of_machine) {
  // First: the machine may know others by these names.
  std::string text =
      fmt::format("{} switch spine{}\n", Map::switch_ip(), map.plan().racks == 1 ? " tor0" : "");
  for (unsigned host = 0; host < map.machines(); ++host)
    text += fmt::format("{} {}\n", Map::host_ip(host), map.host_name(host));
  return text + of_machine;
}

fs::path hosts_file(const State& state) { return directory_of(state.name) / "hosts"; }
fs::path agent_file(const State& state) { return directory_of(state.name) / kAgentName; }

Expected<void> write_names(const State& state) {
  std::ostringstream of_machine;
  of_machine << std::ifstream("/etc/hosts").rdbuf();
  std::ofstream stream(hosts_file(state));
  stream << hosts_text(Map(state.plan, state.prefix), of_machine.str());
  stream.close();
  std::error_code problem;
  // Whoever a process in the lab becomes may look up names.
  fs::permissions(hosts_file(state), fs::perms(0644), problem);
  // A link, not a script: /run may be mounted without the right to run what lies in it.
  if (!problem) fs::create_symlink(fs::read_symlink("/proc/self/exe"), agent_file(state), problem);
  if (!stream || problem)
    return fail(ErrorCode::invalid_argument, fmt::format("cannot write {}", hosts_file(state).string()));
  return {};
}

}  // namespace passing::lab
