// What every function of the C interface needs: no exception leaves it, and its error is kept for
// passing_error().
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "passing/passing.h"

namespace passing::c {

/// Enumerators of the two interfaces have the same numbers: for static_assert.
template <class C, class Cpp>
constexpr bool same(C c, Cpp cpp) {
  return static_cast<int>(c) == static_cast<int>(cpp);
}

/// Keep what went wrong for the calling thread.
passing_status record(Error&& error) noexcept;
passing_status record_exception(const char* what) noexcept;

inline tl::unexpected<Error> refuse(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}
inline tl::unexpected<Error> is_null(const char* what) {
  return refuse(std::string(what) + " is null: must be given");
}

/// Calls something that returns Expected<void>, and makes a status of whatever becomes of it.
template <class Call>
passing_status guarded(const Call& call) noexcept {
  try {
    Expected<void> result = call();
    return result ? PASSING_OK : record(std::move(result.error()));
  } catch (const std::bad_alloc&) {
    return record_exception("out of memory");
  } catch (const std::exception& exception) {
    return record_exception(exception.what());
  } catch (...) {
    return record_exception("an exception of unknown type");
  }
}

/// Puts what was made where the caller wants it, or hands the error on.
template <class T, class Made>
Expected<void> give(Expected<Made>&& made, T** where) {
  if (!made) return tl::unexpected<Error>(std::move(made.error()));
  *where = new T{std::move(*made)};
  return {};
}

}  // namespace passing::c
