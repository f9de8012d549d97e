// The subcommands of `passing`. Each adds itself to the command line and runs from its callback.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace passing::cli {

/// Exit statuses: 0 all was right, 1 something failed, 2 bad input.
constexpr int kFailed = 1;
constexpr int kBadInput = 2;

/// A whole number from `least` to `most`, refused with one short sentence.
inline CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  return CLI::Validator(
      [=](const std::string& text) {
        const bool digits =
            !text.empty() && text.size() < 20 && text.find_first_not_of("0123456789") == std::string::npos;
        if (digits && std::stoull(text) >= least && std::stoull(text) <= most) return std::string();
        return "'" + text + "': must be " + range;
      },
      range, "whole number");
}

/// Blocks the signals that end a process (SIGTERM, SIGINT), for all threads that are started later, and
/// returns a descriptor to wait for one.
int ending_signals();
/// Waits for one of them, and closes the descriptor. Returns its name.
std::string await_ending(int signals, const std::function<void()>& every_second = {});
/// Log lines go to stderr, with the time.
void log_to_stderr(const std::string& who);

/// `passing rehearse --demo`: what can be shown without a lab.
int rehearsal();

void add_all_reduce(CLI::App& app);
/// The command line is part of its results.
void add_bench(CLI::App& app, int argc, char** argv);
void add_lab(CLI::App& app);
/// Whether the program was called by the name of the lab's agent; then the rest of the line is as that of
/// ssh. Becomes the command on that host, or returns a status.
bool called_as_agent(const char* name);
int run_agent(std::vector<std::string> words);
void add_rehearse(CLI::App& app);
void add_report(CLI::App& app);
void add_server(CLI::App& app);
/// Another program, `passing-simulate`: it alone loads what simulations need. Becomes it, or returns a
/// status.
void add_simulate(CLI::App& app);
int become_simulate(char** argv);
/// Lists what the other commands have: added last.
void add_settings(CLI::App& app);
void add_status(CLI::App& app);
void add_switch(CLI::App& app);
/// The command line is part of its results, too.
void add_train(CLI::App& app, int argc, char** argv);

}  // namespace passing::cli
