// What `passing lab run` and `passing lab demo` put into a cluster: a switch, parameter servers, ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "lab/cluster.h"
#include "lab/launcher.h"

namespace passing::cli {

struct LabOptions {
  lab::Plan plan;  ///< with the hosts of ranks; servers have hosts of their own, after these
  unsigned ranks = 1;
  unsigned servers = 0;
  bool no_switch = false;
  bool plain = false;
  bool once = false;
  std::string json;
  std::vector<std::string> switch_arguments;
  lab::LineSink log;  ///< gets what the switch and servers say, if set; else it is printed
  std::vector<std::string> command;
};

std::string random_token();
std::string host_name(const LabOptions& options, unsigned host);

/// What launchers tell their processes; PASSING_* first, then torchrun's names.
std::map<std::string, std::string> environment_of(const LabOptions& options, const std::string& token,
                                                  unsigned host, unsigned local);

/// Return when what they start listens.
Expected<void> start_switch(const LabOptions& options, const lab::Cluster& cluster, lab::Launcher& launcher);
Expected<void> start_servers(const LabOptions& options, const std::string& token, const lab::Cluster& cluster,
                             lab::Launcher& launcher);

void add_lab_demo(CLI::App& lab);

}  // namespace passing::cli
