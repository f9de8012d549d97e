#include "cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <regex>
#include <sstream>

namespace passing::cli {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kIndent = 26;

// Words in lines, each after the first with so many spaces before it. `used`: columns of the first that are
// taken.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t used) {
  std::istringstream words(text);
  std::string lines;
  std::size_t column = used;
  for (std::string word; words >> word;) {
    const bool first = column == used && lines.empty();
    if (!first && column + 1 + word.size() > kColumns) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      lines += " ";
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines + "\n";
}

// Lines that are indented are examples: they stay as they are.
std::string paragraphs(const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);)
    all += line.starts_with(" ") ? line + "\n" : wrapped(line, 0, 0);
  return all;
}

std::string row(const std::string& left, const std::string& right) {
  const std::string start = "  " + left;
  if (start.size() + 2 <= kIndent) {
    return start + std::string(kIndent - start.size(), ' ') + wrapped(right, kIndent, kIndent);
  }
  return start + "\n" + std::string(kIndent, ' ') + wrapped(right, kIndent, kIndent);
}

// "N" for numbers, or what the type is called.
std::string placeholder(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return " " + option.get_option_text();
  if (option.get_type_size() == 0) return "";
  const std::string type = option.get_type_name().substr(0, option.get_type_name().find(':'));
  const bool number = type == "UINT" || type == "INT" || type == "FLOAT";
  return " " + (number ? "N" : type) + (option.get_expected_max() > 1 ? ",..." : "");
}

std::string facts(const CLI::Option& option) {
  std::vector<std::string> facts;
  if (option.get_required()) facts.emplace_back("required");
  if (const std::string range = range_of(option); !range.empty()) facts.push_back(range);
  if (const std::string value = default_of(option); !value.empty()) facts.push_back("default: " + value);
  if (!option.get_envname().empty()) facts.push_back(option.get_envname());
  return facts.empty() ? "" : fmt::format(" [{}]", fmt::join(facts, "; "));
}

}  // namespace

std::string range_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  if (colon == std::string::npos || !option.get_option_text().empty()) return "";
  std::string check = type.substr(colon + 1);
  static const std::regex between(R"(\w+ in \[(\S+) - (\S+)\])");
  if (std::smatch found; std::regex_match(check, found, between))
    return found[1].str() + " to " + found[2].str();
  if (!check.starts_with("{")) return check;
  return "one of " + std::regex_replace(check.substr(1, check.size() - 2), std::regex(","), ", ");
}

std::string default_of(const CLI::Option& option) {
  std::string value = option.get_default_str();
  if (value.starts_with("[")) value = value.substr(1, value.size() - 2);
  std::erase(value, '"');
  return value;
}

std::string Help::make_description(const CLI::App* app) const {
  return paragraphs(app->get_description()) + "\n";
}

std::string Help::make_footer(const CLI::App* app) const { return paragraphs(app->get_footer()); }

// Where a group is hidden, an empty line is left of it.
std::string Help::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  return std::regex_replace(Formatter::make_help(app, std::move(name), mode), std::regex("\n{3,}"), "\n\n");
}

std::string Help::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string name = make_option_name(option, is_positional);
  return row(is_positional ? name : name + placeholder(*option), option->get_description() + facts(*option));
}

// The first sentence of what it says about itself is on the first line.
std::string Help::make_subcommand(const CLI::App* command) const {
  const std::string text = command->get_description();
  return row(command->get_name(), text.substr(0, text.find('\n')));
}

}  // namespace passing::cli
