// What the commands that measure in a lab share.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "lab/links.h"

namespace passing::cli {

/// What comes before the results in a file of them: format, date, commit, machine and command.
nlohmann::json about_run(const std::string& format, const std::string& command);
/// What there is so far, in case that the rest is not waited for. An empty path: nowhere.
Expected<void> write_results(const nlohmann::json& results, const std::string& path);
/// The command line, as it goes into a file of results.
std::string command_line(int argc, char** argv);

/// What links carried between two counts of them.
struct Carried {
  double bytes = 0;  ///< on the busiest link, one way
  std::string link;
  double uplink = 0;  ///< the same of the busiest uplink of a rack
};
Carried busiest(const std::vector<lab::Link>& before, const std::vector<lab::Link>& after);

/// A directory that is gone afterwards.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace passing::cli
