#include "cli/share.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace passing::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultGpu = "-v100";

fs::path here() { return fs::read_symlink("/proc/self/exe").parent_path(); }

}  // namespace

std::vector<fs::path> share_directories(const std::string& kind) {
  return {here() / "share/passing" / kind, here().parent_path() / "share/passing" / kind};
}

std::vector<std::string> shared_names(const std::string& kind, const std::string& ending) {
  std::vector<std::string> names;
  for (const fs::path& directory : share_directories(kind)) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(directory, none)) {
      std::string stem = entry.path().stem();
      if (stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
      names.push_back(std::move(stem));
    }
    if (!names.empty()) break;
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> replay_models() { return shared_names("models", kDefaultGpu); }

Expected<std::string> model_file(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".json")) return name;
  for (const fs::path& directory : share_directories("models")) {
    for (const std::string& stem : {name, name + kDefaultGpu}) {
      if (fs::exists(directory / (stem + ".json"))) return (directory / (stem + ".json")).string();
    }
  }
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("--model: '{}' is no model to replay: there are {}; or name a file such as ./{}.json", name,
                  fmt::join(replay_models(), ", "), name));
}

Expected<std::string> cluster_file(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".toml")) return name;
  for (const fs::path& directory : share_directories("clusters")) {
    if (fs::exists(directory / (name + ".toml"))) return (directory / (name + ".toml")).string();
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("--cluster: there is no '{}': there are {}; or name a file such as ./{}.toml", name,
                          fmt::join(shared_names("clusters", ""), ", "), name));
}

fs::path beside_us(const std::string& program) { return here() / program; }

}  // namespace passing::cli
