// What a controller answers while a group works or ends. Read without a tree of JSON values: to destroy one
// takes memory, and without it would end the process.
#pragma once

#include <optional>
#include <string>

#include "net/controller_client.h"

namespace passing::net {

/// None: it is no such answer.
std::optional<JobState> read_job_state(const std::string& text);
/// The sentence of a refusal; none: there is none in it.
std::optional<std::string> read_refusal(const std::string& text);

/// What a member says of itself.
std::string write_member(std::uint64_t key, std::uint32_t rank);

}  // namespace passing::net
