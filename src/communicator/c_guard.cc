#include "communicator/c_guard.h"

#include <algorithm>
#include <vector>

namespace passing::c {
namespace {

static_assert(same(PASSING_INVALID_ARGUMENT, ErrorCode::invalid_argument));
static_assert(same(PASSING_NO_CAPACITY, ErrorCode::no_capacity));
static_assert(same(PASSING_DISAGREEMENT, ErrorCode::disagreement));
static_assert(same(PASSING_DEADLINE, ErrorCode::deadline));
static_assert(same(PASSING_UNREACHABLE, ErrorCode::unreachable));
static_assert(same(PASSING_EPOCH_ENDED, ErrorCode::epoch_ended));
static_assert(same(PASSING_PEER_LOST, ErrorCode::peer_lost));
static_assert(same(PASSING_CANCELLED, ErrorCode::cancelled));

struct LastError {
  std::string message;
  std::vector<std::uint16_t> ranks;
};
thread_local LastError last_error;

}  // namespace

passing_status record(Error&& error) noexcept {
  last_error.message = std::move(error.message);
  last_error.ranks = std::move(error.members);
  return static_cast<passing_status>(error.code);
}

passing_status record_exception(const char* what) noexcept {
  last_error.ranks.clear();
  try {
    last_error.message = what;
  } catch (...) {
    last_error.message = "out of memory";  // so short that it needs none
  }
  return PASSING_SYSTEM_ERROR;
}

}  // namespace passing::c

extern "C" {

const char* passing_error(void) { return passing::c::last_error.message.c_str(); }

size_t passing_error_ranks(uint32_t* ranks, size_t most) {
  const auto& all = passing::c::last_error.ranks;
  if (ranks != nullptr) std::copy_n(all.begin(), std::min(most, all.size()), ranks);
  return all.size();
}

const char* passing_version(void) { return PASSING_VERSION_STRING; }

}  // extern "C"
