// Runtime faults are values (docs/errors.md). Bugs are assertions: PASSING_ASSERT.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "passing/error.h"

namespace passing {

inline tl::unexpected<Error> fail(ErrorCode code, std::string message,
                                  std::vector<std::uint16_t> members = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(members)});
}

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace passing

/// For bugs only, in every build type: a wrong sum is worse than a stopped process.
#define PASSING_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::passing::assertion_failed(#condition, __FILE__, __LINE__))
