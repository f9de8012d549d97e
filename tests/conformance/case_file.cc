#include "conformance/case_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace passing::conformance {
namespace {

Step parse_step(const std::string& text, int line) {
  Step step{.line = line, .text = text};
  std::istringstream stream(text);
  std::string word;
  stream >> step.verb;
  while (stream >> word) {
    if (word == ":") {
      step.has_values = true;
      long long value = 0;
      while (stream >> value) step.values.push_back(value);
      if (!stream.eof())
        throw std::runtime_error("line " + std::to_string(line) + ": not a number after ':'");
    } else if (const auto equals = word.find('='); equals != std::string::npos) {
      step.fields[word.substr(0, equals)] = word.substr(equals + 1);
    } else {
      step.words.push_back(word);
    }
  }
  return step;
}

}  // namespace

std::vector<Case> read_cases(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Case> cases;
  for (const auto& path : files) {
    std::ifstream file(path);
    std::string text;
    for (int line = 1; std::getline(file, text); ++line) {
      if (const auto comment = text.find('#'); comment != std::string::npos) text.resize(comment);
      if (text.find_first_not_of(" \t") == std::string::npos) continue;
      const Step step = parse_step(text, line);
      if (step.verb == "case") {
        cases.push_back({.file = path.filename().string(), .name = step.words.at(0), .steps = {}});
      } else if (cases.empty()) {
        throw std::runtime_error(path.string() + ": a step before the first case");
      } else {
        cases.back().steps.push_back(step);
      }
    }
  }
  return cases;
}

}  // namespace passing::conformance
