// What programs in a lab find beside their network: names of hosts, and an agent in the place of ssh.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "plan.h"
#include "state.h"

namespace passing::lab {

/// How the agent is called where only one word fits: as a link to our program, which looks at its name.
constexpr const char* kAgentName = "passing-lab-agent";

/// An /etc/hosts of the lab: every place that has an address, then what the machine's own says.
std::string hosts_text(const Map& map, const std::string& of_machine);
std::filesystem::path hosts_file(const State& state);
std::filesystem::path agent_file(const State& state);
/// Makes both, in the directory of the lab: they go with it.
Expected<void> write_names(const State& state);

}  // namespace passing::lab
