// What is known about the labs of this machine: a directory each, with a file that says what it is.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "links.h"

namespace passing::lab {

struct State {
  std::string name;    ///< the user's word for it
  std::string prefix;  ///< of the names of its namespaces
  pid_t owner = 0;     ///< removes it at its end; 0: it stays until `passing lab down`
  Plan plan;
  unsigned ranks = 1;  ///< per host
  bool with_switch = true;
  std::string token;
  LinkStates links;
};

std::filesystem::path directory_of(const std::string& name);

/// Takes the name. One sentence if it is taken.
Expected<void> claim(const State& state);
Expected<void> save(const State& state);
Expected<State> load(const std::string& name);
void forget(const std::string& name);

/// The names of all labs.
std::vector<std::string> names();
/// `name`, or without one the name of the only lab. A sentence if it is not clear which.
Expected<std::string> choose(const std::string& name);

/// Keeps others from changing a lab as long as it exists.
class Lock {
 public:
  explicit Lock(const std::string& name);
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_;
};

}  // namespace passing::lab
