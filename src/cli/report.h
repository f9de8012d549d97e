// Reports, for commands that make one of their own results.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"

namespace passing::cli {

/// Whether results can be written to --json and --report (empty: not asked for), to be known before the work.
Expected<void> can_write(const std::string& json, const std::string& report);
/// Results as the page wants them (a list of `file` and `content`) as an HTML file; says where it is. The
/// exit status.
int write_report(const nlohmann::json& reports, const std::string& output);

}  // namespace passing::cli
