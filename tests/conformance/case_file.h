// The text format of conformance cases, described in cases/README.md.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace passing::conformance {

/// One line of a case, split into words: verb, bare words, key=value pairs, values after a colon.
struct Step {
  int line = 0;
  std::string text;
  std::string verb;
  std::vector<std::string> words;
  std::map<std::string, std::string> fields;
  std::vector<long long> values;
  bool has_values = false;
};

struct Case {
  std::string file;
  std::string name;
  std::vector<Step> steps;
};

/// All cases of all .txt files of a directory, sorted. Throws on what cannot be read.
std::vector<Case> read_cases(const std::string& directory);

}  // namespace passing::conformance
