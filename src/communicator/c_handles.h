// What is behind the opaque types of the C interface.
#pragma once

#include "passing/communicator.h"
#include "passing/passing.h"

struct passing_config {
  passing::Config settings;
  passing_exchange exchange = nullptr;
  void* context = nullptr;
};

struct passing_comm {
  passing::Communicator communicator;
};

struct passing_op {
  passing::Operation operation;
};
