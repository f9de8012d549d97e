// The subcommands of `passing`. Each adds itself to the command line and runs from its callback.
#pragma once

#include <CLI/CLI.hpp>

namespace passing::cli {

/// Exit statuses: 0 all was right, 1 something failed, 2 bad input.
constexpr int kFailed = 1;
constexpr int kBadInput = 2;

void add_rehearse(CLI::App& app);

}  // namespace passing::cli
