// Runtime faults and bad input are values: docs/errors.md.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "passing/export.h"

namespace passing {

enum class ErrorCode : std::uint8_t {
  invalid_argument = 1,  ///< bad input: the message names the value and the remedy
  no_capacity,           ///< too few slots in the switch; too few descriptors, threads or memory here
  disagreement,          ///< ranks called different operations; the message says who called what
  deadline,              ///< an operation did not end in time; `members` are the missing ones
  unreachable,           ///< the switch, its controller or a peer did not answer
  epoch_ended,           ///< the controller ended the epoch
  peer_lost,             ///< a rank has died, or left before the operation
  cancelled,             ///< by a call of cancel(), on some rank
};

PASSING_API const char* to_string(ErrorCode code);

/// What went wrong, with whom. Plain value, copied freely.
struct Error {
  ErrorCode code;
  std::string message;
  /// The members (of a communicator: the ranks) concerned: both sides of a disagreement, those that
  /// are missing, or that are lost.
  std::vector<std::uint16_t> members;
};

template <class T>
using Expected = tl::expected<T, Error>;

}  // namespace passing
