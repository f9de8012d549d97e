#include "net/answers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "net/hex.h"

namespace passing::net {
namespace {

using nlohmann::json;

/// The values of an object, of those types that answers have: strings, and arrays of strings and of numbers.
/// What else there is may be anything.
class Fields : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ == 2 && key_ == "missing" && value <= UINT16_MAX)
      state.missing.push_back(static_cast<std::uint16_t>(value));
    return true;
  }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& value) override {
    if (depth_ == 2 && key_ == "addresses") state.addresses.push_back(value);
    if (depth_ != 1) return true;
    if (key_ == "state") phase = value;
    if (key_ == "reason") state.reason = value;
    if (key_ == "error") error = value;
    return true;
  }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override { return go_down(); }
  bool key(string_t& name) override {
    if (depth_ == 1) key_ = name;
    return true;
  }
  bool end_object() override { return go_up(); }
  bool start_array(std::size_t /*elements*/) override {
    // The answer itself is an object.
    if (depth_ == 0) return false;
    if (depth_ == 1) arrays += key_ + " ";
    return go_down();
  }
  bool end_array() override { return go_up(); }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*what*/) override {
    return false;
  }

  JobState state;
  std::optional<std::string> phase;
  std::optional<std::string> error;
  std::string arrays;  // which there were

 private:
  bool go_down() {
    ++depth_;
    return true;
  }
  bool go_up() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::string key_;  // of the outermost object
};

}  // namespace

std::optional<JobState> read_job_state(const std::string& text) {
  Fields fields;
  if (!json::sax_parse(text, &fields) || !fields.phase) return std::nullopt;
  if (fields.arrays.find("missing ") == std::string::npos ||
      fields.arrays.find("addresses ") == std::string::npos)
    return std::nullopt;
  fields.state.phase = *fields.phase == "forming"   ? JobState::Phase::forming
                       : *fields.phase == "running" ? JobState::Phase::running
                                                    : JobState::Phase::ended;
  return std::move(fields.state);
}

std::optional<std::string> read_refusal(const std::string& text) {
  Fields fields;
  if (!json::sax_parse(text, &fields)) return std::nullopt;
  return std::move(fields.error);
}

std::string write_member(std::uint64_t key, std::uint32_t rank) {
  return fmt::format(R"({{"key":"{}","rank":{}}})", to_hex(key), rank);
}

}  // namespace passing::net
