// Runtime faults are values (docs/errors.md). Bugs are assertions: PASSING_ASSERT.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace passing {

enum class ErrorCode : std::uint8_t {
  invalid_argument,  ///< bad input: the message names the value and the remedy
  no_capacity,       ///< the switch has too few free slots
  disagreement,      ///< members submitted different operations
  deadline,          ///< an operation was aborted at a deadline; `members` are the missing ones
  unreachable,       ///< the switch did not answer
  epoch_ended,       ///< the controller ended the epoch
};

const char* to_string(ErrorCode code);

/// What went wrong, with whom. Plain value, copied freely.
struct Error {
  ErrorCode code;
  std::string message;
  /// The members concerned: both sides of a disagreement (who opened the slot, then who
  /// disagreed), or the members that were missing.
  std::vector<std::uint16_t> members;
};

template <class T>
using Expected = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message,
                                  std::vector<std::uint16_t> members = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(members)});
}

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace passing

/// For bugs only, in every build type: a wrong sum is worse than a stopped process.
#define PASSING_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::passing::assertion_failed(#condition, __FILE__, __LINE__))
