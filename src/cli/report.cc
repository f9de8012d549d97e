// `passing report`: results as one HTML file that loads nothing from elsewhere.
#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "cli/commands.h"
#include "cli/report_input.h"

#ifdef PASSING_HAS_REPORT_PAGE
extern "C" const char passing_report_page[];  // report_page.S
#endif

namespace passing::cli {
namespace {

using nlohmann::json;

struct Options {
  std::vector<std::string> files;
  std::string output = "report.html";
};

int complain(const std::string& text, int status) {
  fmt::print(stderr, "passing report: {}\n", text);
  return status;
}

constexpr const char* kNoPage =
    "this passing was built without its web page; install npm (tools/install-deps does), then configure and "
    "build "
    "again";

std::string_view page() {
#ifdef PASSING_HAS_REPORT_PAGE
  return passing_report_page;
#else
  return {};
#endif
}

// JSON that can stand in a script element: no "<" can end it. Outside of strings JSON has none.
std::string embedded(const json& data) {
  std::string text;
  for (const char each : data.dump()) {
    if (each == '<') {
      text += "\\u003c";
    } else {
      text += each;
    }
  }
  return text;
}

// Someone who swaps the arguments shall not lose an hour of measurements.
bool is_input(const Options& options) {
  std::error_code missing;
  return std::any_of(options.files.begin(), options.files.end(), [&](const std::string& file) {
    return std::filesystem::equivalent(file, options.output, missing) && !missing;
  });
}

// The page, cut where the data belongs; nothing if it was not built.
std::optional<std::pair<std::string_view, std::string_view>> halves() {
  constexpr std::string_view kMark = "@PASSING_DATA@";
  const std::string_view whole = page();
  const auto at = whole.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair{whole.substr(0, at), whole.substr(at + kMark.size())};
}

int write(const std::string& output, const std::string& data) {
  const auto [before, after] = *halves();
  if (output == "-") {
    std::cout << before << data << after << std::flush;
    return std::cout ? 0 : complain("standard output cannot be written", kFailed);
  }
  std::ofstream file(output, std::ios::binary | std::ios::trunc);
  if (!file) {
    return complain(fmt::format("--output: cannot write {}: {}", output, std::strerror(errno)), kBadInput);
  }
  file << before << data << after;
  file.close();
  if (!file) return complain(fmt::format("cannot write all of {}: is the disk full?", output), kFailed);
  std::error_code unknown;
  const auto whole = std::filesystem::absolute(output, unknown);
  fmt::print("The report is in {}: open it in a browser.\n", unknown ? output : whole.string());
  return 0;
}

int run(const Options& options) {
  if (!halves()) return complain(kNoPage, kFailed);
  json reports = json::array();
  for (const std::string& file : options.files) {
    auto content = read_results(file);
    if (!content) return complain(content.error().message, kBadInput);
    reports.push_back(
        {{"file", std::filesystem::path(file).filename().string()}, {"content", std::move(*content)}});
  }
  if (is_input(options)) {
    return complain(
        fmt::format("--output: {} is a file of results: the report must go elsewhere", options.output),
        kBadInput);
  }
  return write_report(reports, options.output);
}

}  // namespace

Expected<void> can_write(const std::string& json, const std::string& report) {
  for (const auto& [name, path] : {std::pair{"--json", json}, {"--report", report}}) {
    if (!path.empty() && path != "-" && !std::ofstream(path, std::ios::app))
      return fail(ErrorCode::invalid_argument, fmt::format("{}: cannot write '{}'", name, path));
  }
  if (report.empty() || halves()) return {};
  return fail(ErrorCode::no_capacity, std::string("--report: ") + kNoPage);
}

int write_report(const json& reports, const std::string& output) {
  if (!halves()) return complain(kNoPage, kFailed);
  return write(output, embedded(json{{"made_by", "passing " PASSING_VERSION_STRING}, {"reports", reports}}));
}

void add_report(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Make a report of results: one HTML file with charts and tables.\n\nIt also holds the commands and "
      "commits, and loads nothing from elsewhere. Results of several files appear together.");
  command
      ->add_option("files", options->files,
                   "files that `passing bench`, `passing train` or `passing simulate` wrote with --json FILE")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("-o,--output", options->output,
                   "where to write the report; - is standard output. A file that is there is replaced")
      ->capture_default_str();
  command->footer(
      "Examples:\n  passing bench --json before.json\n  passing report before.json after.json --output "
      "change.html");
  command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace passing::cli
