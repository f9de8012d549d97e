// What the commands of `passing lab` share: options, and what is put into a cluster.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "lab/cluster.h"
#include "lab/launcher.h"

namespace passing::cli {

struct LabOptions {
  lab::Plan plan;
  std::string name;
  unsigned ranks = 1;
  bool no_switch = false;
  bool plain = false;
  bool once = false;
  std::string json;
  std::vector<std::string> switch_arguments;
  lab::LineSink log;  ///< gets what the switch and servers say, if set; else it is printed
  std::vector<std::string> command;
};

/// The options that say what the cluster is like: the same for all commands that make one.
void add_plan_options(CLI::App& command, LabOptions& options);
/// What a switch in a lab can be.
const std::vector<std::string>& dataplanes();
/// --dataplane, of the switch in the lab.
void add_dataplane_option(CLI::App& command, lab::Plan& plan);
/// Empty, or why a plan cannot be.
std::string contradiction(const lab::Plan& plan);
/// A rate as tc writes it.
CLI::Validator rate_of_link();
/// --name, of a lab that there is.
void add_name_option(CLI::App& command, std::string& name);

/// Prints a sentence to stderr and returns the status.
int complain(const std::string& sentence, int status = kFailed);
/// Runs one of the commands from its callback.
void finish(int status);

/// What a cluster is made from, with a token of its own.
lab::State wanted(const LabOptions& options);
/// A lab that there is, with its namespaces.
Expected<lab::Cluster> open_lab(const std::string& name);

/// What a rank is to know of its link, in Gbit/s, as text; empty: not shaped. `in_racks`: ranks sum in racks
/// first.
std::string link_rate(const lab::Plan& plan, bool in_racks);
/// What any process in a lab is told, on which place ever.
std::map<std::string, std::string> environment_of(const lab::State& state);
/// What launchers tell their processes; PASSING_* first, then torchrun's names.
std::map<std::string, std::string> environment_of(const lab::State& state, unsigned host, unsigned local);
/// What a launcher is told that starts ranks itself: also how it reaches other hosts, as Open MPI and MPICH
/// read it.
std::map<std::string, std::string> environment_of_launcher(const lab::State& state);
/// A rank of a lab that runs a command.
lab::Process rank_process(const lab::Cluster& cluster, unsigned rank,
                          const std::vector<std::string>& command);

/// Starts a process and returns when it listens on the port.
using Starter = std::function<Expected<void>(const lab::Process& process, std::uint16_t port)>;
/// The switch, unless the lab has none, and the parameter servers.
Expected<void> start_services(const lab::Cluster& cluster, const std::vector<std::string>& switch_arguments,
                              const Starter& start);
/// The same, as children of ours with their output passed on as the options say.
Expected<void> start_services(const LabOptions& options, const lab::Cluster& cluster,
                              lab::Launcher& launcher);
/// Whether someone listens on a TCP port in a namespace.
bool listens(const std::string& where, std::uint16_t port);
/// HOST:PORT of the switch's controller in any lab.
std::string controller_address();

/// What links carried, and what they are set to.
nlohmann::json describe(const std::vector<lab::Link>& links, const lab::LinkStates& states);

void add_lab_agent(CLI::App& lab);
void add_lab_demo(CLI::App& lab);
void add_lab_down(CLI::App& lab);
void add_lab_exec(CLI::App& lab);
void add_lab_link(CLI::App& lab);
void add_lab_run(CLI::App& lab);
void add_lab_status(CLI::App& lab);
void add_lab_up(CLI::App& lab);

}  // namespace passing::cli
