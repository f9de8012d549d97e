// Files of results that `passing report` shows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "passing/error.h"

namespace passing::cli {

/// A file of results, checked as far as the page relies on it: format and version, and fields of the right
/// type. What a file lacks the page shows as a dash. Errors name the file, what is wrong and what to do.
Expected<nlohmann::json> read_results(const std::string& path);

}  // namespace passing::cli
