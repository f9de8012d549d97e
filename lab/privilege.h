// Who may make a lab.
#pragma once

#include "base/error.h"

namespace passing::lab {

/// Nothing for root. Others become root of a user namespace of their own, with a network and a /run in which
/// namespaces can be named, where the system allows it; if not, a sentence says what to do. Before any
/// thread.
Expected<void> gain_privilege();

}  // namespace passing::lab
