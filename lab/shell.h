// Running the system's network tools.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace passing::lab {

/// Runs a program with `input` on its standard input; returns what it printed. A failure carries
/// the command and what the program said.
Expected<std::string> run(const std::vector<std::string>& command, const std::string& input = "");

}  // namespace passing::lab
