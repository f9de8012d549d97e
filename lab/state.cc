#include "state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace passing::lab {
namespace {

using nlohmann::json;

// Emptied at a restart, like the namespaces.
const std::filesystem::path kRoot = "/run/passing-lab";

json to_json(const State& state) {
  const Plan& plan = state.plan;
  json links = json::object();
  for (const auto& [name, link] : state.links) {
    links[name] = {{"rate", link.rate},
                   {"loss", link.impairment.loss},
                   {"duplication", link.impairment.duplication},
                   {"reordering", link.impairment.reordering},
                   {"down", link.down}};
  }
  return {{"name", state.name},      {"prefix", state.prefix},
          {"owner", state.owner},    {"hosts", plan.hosts},
          {"servers", plan.servers}, {"racks", plan.racks},
          {"rate", plan.rate},       {"spine_rate", plan.uplink_rate()},
          {"mtu", plan.mtu},         {"dataplane", plan.dataplane},
          {"ranks", state.ranks},    {"switch", state.with_switch},
          {"token", state.token},    {"links", links}};
}

State from_json(const json& from) {
  State state{.name = from.at("name"),
              .prefix = from.at("prefix"),
              .owner = from.at("owner"),
              .plan = {.hosts = from.at("hosts"),
                       .servers = from.at("servers"),
                       .racks = from.at("racks"),
                       .rate = from.at("rate"),
                       .spine_rate = from.at("spine_rate"),
                       .mtu = from.at("mtu"),
                       .dataplane = from.value("dataplane", "userspace"),
                       .impairment = {}},
              .ranks = from.at("ranks"),
              .with_switch = from.at("switch"),
              .token = from.at("token"),
              .links = {}};
  for (const auto& [name, link] : from.at("links").items()) {
    state.links[name] = {.rate = link.at("rate"),
                         .impairment = {.loss = link.at("loss"),
                                        .duplication = link.at("duplication"),
                                        .reordering = link.at("reordering")},
                         .down = link.at("down")};
  }
  return state;
}

Expected<void> write(const std::filesystem::path& directory, const State& state) {
  const auto file = directory / "state.json";
  const auto next = directory / fmt::format("state.{}", getpid());
  std::ofstream stream(next);
  stream << to_json(state).dump(2) << "\n";
  stream.close();
  std::error_code problem;
  if (stream) std::filesystem::rename(next, file, problem);
  if (!stream || problem)
    return fail(ErrorCode::invalid_argument, fmt::format("cannot write {}", file.string()));
  return {};
}

}  // namespace

std::filesystem::path directory_of(const std::string& name) { return kRoot / name; }

Expected<void> claim(const State& state) {
  mkdir(kRoot.c_str(), 0700);  // there are tokens in it
  const auto made = kRoot / fmt::format(".{}.{}", state.name, getpid());
  if (mkdir(made.c_str(), 0700) != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("cannot make a directory in {}: {}", kRoot.string(), std::strerror(errno)));
  }
  auto written = write(made, state);
  // The only step that others can see; it fails if there is such a directory.
  if (written && rename(made.c_str(), directory_of(state.name).c_str()) != 0) {
    const int problem = errno;
    written = fail(
        ErrorCode::invalid_argument,
        problem == EEXIST || problem == ENOTEMPTY
            ? fmt::format("there is a lab named '{0}' already: choose another --name, or remove "
                          "it with `passing lab down {0}`",
                          state.name)
            : fmt::format("cannot make {}: {}", directory_of(state.name).string(), std::strerror(problem)));
  }
  std::error_code ignored;
  if (!written) std::filesystem::remove_all(made, ignored);
  return written;
}

Expected<void> save(const State& state) { return write(directory_of(state.name), state); }

Expected<State> load(const std::string& name) {
  const auto file = directory_of(name) / "state.json";
  std::ifstream stream(file);
  if (!stream) return fail(ErrorCode::invalid_argument, fmt::format("there is no lab named '{}'", name));
  try {
    return from_json(json::parse(stream));
  } catch (const json::exception&) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is damaged: remove the lab with `passing lab down {}`", file.string(), name));
  }
}

void forget(const std::string& name) {
  std::error_code ignored;
  if (!name.empty()) std::filesystem::remove_all(directory_of(name), ignored);
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot, ignored)) {
    const std::string name = entry.path().filename();
    if (name.front() != '.') found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Expected<std::string> choose(const std::string& name) {
  const auto all = names();
  if (std::find(all.begin(), all.end(), name) != all.end()) return name;
  if (name.empty() && all.size() == 1) return all.front();
  std::string list;
  for (const std::string& each : all) list += (list.empty() ? "" : ", ") + each;
  if (all.empty()) {
    return fail(ErrorCode::invalid_argument,
                name.empty() ? "there is no lab: make one with `passing lab up`"
                             : fmt::format("there is no lab named '{}', nor any other", name));
  }
  return fail(ErrorCode::invalid_argument,
              name.empty() ? fmt::format("there are several labs: say which, of {}", list)
                           : fmt::format("there is no lab named '{}': there is {}", name, list));
}

Lock::Lock(const std::string& name)
    : descriptor_(open(directory_of(name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ >= 0) flock(descriptor_, LOCK_EX);
}

Lock::~Lock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace passing::lab
