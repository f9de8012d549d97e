// What the system refuses this process, for want of descriptors or memory or for another reason.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"

namespace passing {

/// Whether the system's error number means that descriptors or memory have run out.
inline bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/// "; raise the limit of descriptors (ulimit -n)", or the same of memory, if that is what the error number
/// means; else nothing.
inline std::string shortage_remedy(int error) {
  if (!is_shortage(error)) return "";
  return error == EMFILE || error == ENFILE
             ? "; raise the limit of descriptors (ulimit -n)"
             : "; raise the limit of memory (ulimit -v, or that of the container)";
}

/// "WHAT: the system's reason; the remedy". A shortage is no_capacity wherever it shows; anything else is
/// what the caller takes it for.
inline tl::unexpected<Error> system_failure(ErrorCode otherwise, const std::string& what, int error) {
  return fail(is_shortage(error) ? ErrorCode::no_capacity : otherwise,
              what + ": " + std::strerror(error) + shortage_remedy(error));
}

}  // namespace passing
