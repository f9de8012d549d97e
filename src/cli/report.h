// Reports, for commands that make one of their own results.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace passing::cli {

/// Whether this command was built with the page that reports are made from.
bool has_report_page();
/// Results as the page wants them (a list of `file` and `content`) as an HTML file; says where it is. The
/// exit status.
int write_report(const nlohmann::json& reports, const std::string& output);

}  // namespace passing::cli
