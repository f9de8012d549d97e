// The engine itself. Once per process: engine.h.
#pragma once

#include "simulate/engine.h"

namespace passing::simulate {

Timing run_grid(const Scenario& scenario);

}  // namespace passing::simulate
