// Files that come with the command: models and clusters.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace passing::cli {

/// Where such files are: in the build tree, or where they are installed.
std::vector<std::filesystem::path> share_directories(const std::string& kind);
/// Names of the files of a kind, without their ending.
std::vector<std::string> shared_names(const std::string& kind, const std::string& ending);

/// Models whose files come with PASSING.
std::vector<std::string> replay_models();
/// A file, or a name with or without its GPU.
Expected<std::string> model_file(const std::string& name);
/// A file, or the name of one that comes with PASSING.
Expected<std::string> cluster_file(const std::string& name);

/// A program of ours beside this one.
std::filesystem::path beside_us(const std::string& program);

}  // namespace passing::cli
