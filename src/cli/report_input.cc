#include "cli/report_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace passing::cli {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

using Fields = std::vector<const char*>;

/// What writes files that can be reported, and what their results are made of.
struct Kind {
  const char* format;
  const char* command;
  Fields texts;
  Fields numbers;
  Fields truths;
  Fields lists;    ///< of numbers
  Fields objects;  ///< the same
};

const Kind kKinds[] = {
    {.format = "passing-bench",
     .command = "bench",
     .texts = {"strategy", "local_domain", "dataplane", "busiest_link", "error"},
     .numbers = {"hosts",
                 "ranks_per_host",
                 "racks",
                 "servers",
                 "rate_bps",
                 "spine_rate_bps",
                 "mtu",
                 "bytes",
                 "repeat",
                 "in_flight",
                 "samples",
                 "median_seconds",
                 "min_seconds",
                 "max_seconds",
                 "latency_seconds",
                 "limit_seconds",
                 "limit_ratio",
                 "algorithm_bandwidth",
                 "line_ratio",
                 "ceiling_ratio",
                 "cpu_seconds_per_gb",
                 "machine_cpu_seconds_per_gb",
                 "program_seconds_per_gb",
                 "busiest_link_bytes",
                 "least_link_bytes"},
     .truths = {"peer", "verified"},
     .lists = {},
     .objects = {"ratio_to"}},
    {.format = "passing-train",
     .command = "train",
     .texts = {"mode", "model", "strategy", "gpu", "busiest_link"},
     .numbers = {"hosts", "ranks_per_host", "servers", "rate_bps", "mtu", "equivalent_bps", "batch", "steps",
                 "rounds", "bytes", "samples_per_second", "steps_per_second", "step_seconds",
                 "compute_seconds", "exposed_communication_seconds", "speedup_over_ps", "final_loss",
                 "busiest_link_bytes"},
     .truths = {"peer"},
     .lists = {"losses", "step_ends"},
     .objects = {"speedup_over"}},
    {.format = "passing-simulate",
     .command = "simulate",
     .texts = {"strategy", "local_domain", "model", "cluster", "level", "placement", "beside",
               "busiest_link"},
     .numbers = {"gpus",
                 "hosts",
                 "gpus_per_host",
                 "racks",
                 "servers",
                 "rate_bps",
                 "oversubscription",
                 "slots",
                 "bytes",
                 "buckets",
                 "iteration_seconds",
                 "compute_seconds",
                 "communication_seconds",
                 "exposed_communication_seconds",
                 "scaling_efficiency",
                 "speedup_over_ps",
                 "busiest_link_bytes",
                 "busiest_link_share",
                 "in_host_seconds",
                 "network_seconds",
                 "switch_seconds",
                 "latency_seconds",
                 "slots_needed",
                 "switch_memory_bytes",
                 "switch_levels"},
     .truths = {},
     .lists = {},
     .objects = {"speedup_over"}},
};

constexpr const char* kMakeOne =
    "`passing bench`, `passing train` and `passing simulate` write one with --json FILE";

const Kind* kind_of(const json& results) {
  const auto found =
      std::ranges::find_if(kKinds, [&](const Kind& each) { return results["format"] == each.format; });
  return found == std::end(kKinds) ? nullptr : found;
}

tl::unexpected<Error> refuse(const std::string& path, const std::string& what) {
  return fail(ErrorCode::invalid_argument, path + what);
}

Expected<std::string> content_of(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return refuse(path, " is a directory: name the files of results in it");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse(path, fmt::format(" cannot be read: {}; {}", std::strerror(errno), kMakeOne));
  std::ostringstream content;
  content << file.rdbuf();
  if (file.bad()) return refuse(path, fmt::format(" cannot be read: {}", std::strerror(errno)));
  return content.str();
}

Expected<json> parse(const std::string& path, const std::string& content) {
  if (content.find_first_not_of(" \t\r\n") == std::string::npos) {
    return refuse(path, " is empty: the benchmark has not ended yet, or has failed; run it again");
  }
  try {
    return json::parse(content);
  } catch (const json::parse_error& error) {
    const auto end =
        content.begin() + std::ptrdiff_t(std::clamp<std::size_t>(error.byte, 1, content.size())) - 1;
    const auto line = std::count(content.begin(), end, '\n') + 1;
    return refuse(path, fmt::format(" is not JSON: line {} cannot be understood; {}", line, kMakeOne));
  } catch (const json::exception&) {
    return refuse(path, fmt::format(" has a number that is too large for JSON here; {}", kMakeOne));
  }
}

Expected<void> check_format(const std::string& path, const json& results) {
  if (!results.is_object() || !results.contains("format")) {
    return refuse(path, fmt::format(" has no \"format\": it is not a file of results; {}", kMakeOne));
  }
  if (kind_of(results) == nullptr) {
    return refuse(
        path, fmt::format(": format is {}: must be \"{}\", \"{}\" or \"{}\"; {}", results["format"].dump(),
                          kKinds[0].format, kKinds[1].format, kKinds[2].format, kMakeOne));
  }
  const json version = results.value("version", json());
  if (version != kVersion) {
    return refuse(path,
                  fmt::format(": version is {}: this passing knows version {}; report with the passing that "
                              "wrote the file, or run the benchmark again",
                              version.is_null() ? "missing" : version.dump(), kVersion));
  }
  return {};
}

// A field is absent, or null, or as it must be.
bool fits(const json& object, const char* field, bool (json::*is)() const noexcept) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() || ((*found).*is)();
}

std::string complaint(const json& result, const Kind& kind) {
  const auto wrong = [&](const char* field, const char* must) {
    return fmt::format(".{} is {}: must be {}", field, result[field].dump(), must);
  };
  if (!result.is_object()) return " is no object";
  for (const auto& [fields, is, must] : {std::tuple{&kind.texts, &json::is_string, "a text"},
                                         {&kind.numbers, &json::is_number, "a number"},
                                         {&kind.truths, &json::is_boolean, "true or false"},
                                         {&kind.lists, &json::is_array, "a list"},
                                         {&kind.objects, &json::is_object, "an object"}}) {
    for (const char* field : *fields)
      if (!fits(result, field, is)) return wrong(field, must);
  }
  for (const Fields* fields : {&kind.lists, &kind.objects}) {
    for (const char* field : *fields) {
      const json all = result.value(field, json());
      if (std::ranges::all_of(all, [](const json& each) { return each.is_number(); })) continue;
      return wrong(field, fields == &kind.lists ? "a list of numbers" : "an object of numbers");
    }
  }
  return "";
}

Expected<void> check_results(const std::string& path, const json& content) {
  const auto results = content.find("results");
  if (results == content.end() || !results->is_array()) {
    return refuse(path, fmt::format(" has no list of \"results\"; {}", kMakeOne));
  }
  if (results->empty()) return refuse(path, " has no results: nothing was measured; run the benchmark again");
  for (std::size_t i = 0; i < results->size(); ++i) {
    if (const std::string text = complaint((*results)[i], *kind_of(content)); !text.empty())
      return refuse(path, fmt::format(": results[{}]{}", i, text));
  }
  for (const char* field : {"date", "commit", "command"}) {
    if (!fits(content, field, &json::is_string))
      return refuse(path, fmt::format(": {} must be a text", field));
  }
  if (!fits(content, "machine", &json::is_object)) return refuse(path, ": machine must be an object");
  if (!fits(content, "absent", &json::is_array)) return refuse(path, ": absent must be a list");
  for (const json& each : content.value("absent", json::array()))
    if (!each.is_object()) return refuse(path, ": absent must be a list of objects");
  return {};
}

}  // namespace

Expected<json> read_results(const std::string& path) {
  const auto content = content_of(path);
  if (!content) return tl::unexpected(content.error());
  auto results = parse(path, *content);
  if (!results) return results;
  if (const auto known = check_format(path, *results); !known) return tl::unexpected(known.error());
  if (const auto checked = check_results(path, *results); !checked) return tl::unexpected(checked.error());
  return results;
}

}  // namespace passing::cli
