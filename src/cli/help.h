// How `--help` looks: lines of at most 100 columns, and with every option its range, default and variable.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace passing::cli {

/// What an option's value must be: "1 to 64", "one of userspace, tc, xdp"; empty: any.
std::string range_of(const CLI::Option& option);
/// Of an option without a value; empty: none.
std::string default_of(const CLI::Option& option);

/// Given to the first App before it gets subcommands, which inherit it.
class Help : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

}  // namespace passing::cli
