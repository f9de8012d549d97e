// What a simulated cluster consists of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "endpoint/endpoint.h"
#include "rehearse/world.h"

namespace passing::rehearse {

// One member's process.
struct World::Member {
  std::uint16_t id = 0;
  std::unique_ptr<endpoint::Endpoint> endpoint;
  std::vector<OperationPlan> steps;  // then leave, if it does
  bool leaves = true;
  std::vector<std::vector<std::byte>> inputs;   // per step
  std::vector<std::vector<std::byte>> outputs;  // per step; the input's copy if in place
  std::vector<Time> submit_at;
  std::size_t submitted = 0;
  std::size_t completed = 0;  // of those submitted
  std::size_t ended = 0;      // with those refused
  std::size_t steps_to_end() const { return steps.size() + (leaves ? 1 : 0); }
  bool departed = false;
  bool started = false;
  std::uint32_t epoch = 0;  // of its endpoint
  bool zombie = false;      // declared dead, and does not know
  Time stalled_until = 0;
  Time wake_at = INT64_MAX;
};

struct World::Job {
  unsigned id = 0;
  std::uint32_t epoch = 1;
  std::uint64_t key = 0;
  std::vector<Member> members;
  std::vector<std::vector<std::byte>> expected;  // per operation
  bool installed = false;
  bool crashed = false;       // once
  std::vector<int> outcomes;  // per operation: 1 succeeded somewhere, 2 failed somewhere
};

}  // namespace passing::rehearse
