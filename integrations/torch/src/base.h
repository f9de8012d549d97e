// What torch 1.13 and 2.x call differently. 1.13 ships the header of 2.x's base class beside its own, so that
// both are compiled in our tests (PASSING_TORCH_AS_2).
#pragma once

#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2 || defined(PASSING_TORCH_AS_2)
#include <torch/csrc/distributed/c10d/Backend.hpp>
namespace passing::torch_backend {
using Base = c10d::Backend;
}
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
namespace passing::torch_backend {
using Base = c10d::ProcessGroup;
}
#endif
