// `passing lab agent`: what launchers start on other hosts of a lab, in the place of ssh.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cli/lab_parts.h"
#include "lab/names.h"

namespace passing::cli {
namespace {

// The lab that this process is in. Its name may not have come this far.
Expected<lab::State> lab_around(const std::string& prefix) {
  for (const std::string& name : lab::names()) {
    auto state = lab::load(name);
    if (state && state->prefix == prefix) return state;
  }
  return fail(ErrorCode::invalid_argument, "the lab that PASSING_LAB names is gone");
}

// Options of ssh that launchers use say nothing here: -x, -n, -l USER, -o SETTING.
void skip_options(std::vector<std::string>& words) {
  constexpr std::string_view kWithValue = "bcDEeFIiJLlmOopQRSWw";
  auto word = words.begin();
  while (word != words.end() && word->starts_with("-")) {
    const bool value_follows = word->size() == 2 && kWithValue.find((*word)[1]) != std::string_view::npos;
    word += std::min<std::ptrdiff_t>(value_follows ? 2 : 1, words.end() - word);
  }
  words.erase(words.begin(), word);
}

// A host or server by its name or address, with a user's name before it or not.
std::string place_of(const lab::Map& map, std::string word) {
  word.erase(0, word.find('@') + 1);  // npos + 1 is 0
  for (unsigned host = 0; host < map.machines(); ++host) {
    if (word == map.host_name(host) || word == lab::Map::host_ip(host)) return map.host_name(host);
  }
  return "";
}

}  // namespace

int run_agent(std::vector<std::string> words) {
  const char* prefix = std::getenv("PASSING_LAB");
  if (prefix == nullptr)
    return complain("PASSING_LAB is not set: the agent runs inside `passing lab run --once`", kBadInput);
  skip_options(words);
  if (words.size() < 2) return complain("the agent needs a host and a command", kBadInput);
  const auto state = lab_around(prefix);
  if (!state) return complain(state.error().message);
  const lab::Map map(state->plan, state->prefix);
  const std::string place = place_of(map, words[0]);
  if (place.empty()) return complain(fmt::format("there is no host '{}' in this lab", words[0]), kBadInput);
  std::string line;
  for (std::size_t i = 1; i < words.size(); ++i) line += (i > 1 ? " " : "") + words[i];
  lab::Process process{.name = place,
                       .where = map.find(place),
                       .host_name = place,
                       .hosts = lab::hosts_file(*state),
                       .command = {"/bin/sh", "-c", line},
                       .environment = environment_of(*state),
                       .prefix = "",
                       .sink = {}};
  // What the launcher has passed on counts.
  std::erase_if(process.environment,
                [](const auto& setting) { return std::getenv(setting.first.c_str()) != nullptr; });
  lab::become(process);
}

bool called_as_agent(const char* name) { return std::filesystem::path(name).filename() == lab::kAgentName; }

void add_lab_agent(CLI::App& lab) {
  CLI::App* command = lab.add_subcommand(
      "agent",
      "Run a command on another host of the lab, as ssh would: HOST COMMAND...\n\nA launcher that takes one "
      "word for it finds one in PASSING_LAB_AGENT.");
  command->prefix_command();
  command->callback([command] { finish(run_agent(command->remaining())); });
}

}  // namespace passing::cli
