// What a cluster file may say: docs/simulation.md, section 4.
#pragma once

#include <string>
#include <vector>

#include "simulate/cluster.h"

namespace passing::simulate {

/// One key, where it goes, and in which range it must be.
struct Key {
  const char* table;
  const char* name;
  unsigned Cluster::*whole = nullptr;
  double Cluster::*real = nullptr;
  double least = 0;
  double most = 1e9;
  bool required = false;

  std::string full() const { return std::string(table) + "." + name; }
  std::string expected() const;
};

const std::vector<Key>& cluster_keys();

}  // namespace passing::simulate
