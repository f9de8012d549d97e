#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace passing {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid argument";
    case ErrorCode::no_capacity: return "no capacity";
    case ErrorCode::disagreement: return "disagreement";
    case ErrorCode::deadline: return "deadline";
    case ErrorCode::unreachable: return "unreachable";
    case ErrorCode::epoch_ended: return "epoch ended";
    case ErrorCode::peer_lost: return "peer lost";
    case ErrorCode::cancelled: return "cancelled";
  }
  return "?";
}

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "passing: %s:%d: assertion failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace passing
