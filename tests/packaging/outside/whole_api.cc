// Calls every public function of the C++ interface once, alone in its group: what the library failed to
// export does not link.
#include <passing/communicator.h>
#include <passing/config.h>
#include <passing/error.h>
#include <passing/types.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace {

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "whole_api: %s\n", what);
  std::exit(1);
}
#define EXPECT(condition) expect(static_cast<bool>(condition), #condition)

void words() {
  EXPECT(passing::to_string(passing::ErrorCode::deadline) == std::string("deadline"));
  EXPECT(passing::to_string(passing::DataType::bfloat16) == std::string("bfloat16"));
  EXPECT(passing::to_string(passing::Reduction::average) == std::string("average"));
  EXPECT(passing::size_of(passing::DataType::float16) == 2);
  EXPECT(!passing::strategies().empty());
}

void settings() {
  EXPECT(passing::Config::from_environment());
  passing::Config config;
  EXPECT(config.validate());
  config.size = 0;
  EXPECT(config.validate().error().code == passing::ErrorCode::invalid_argument);
  EXPECT(!passing::Communicator::create(config));
}

void about(const passing::Communicator& comm) {
  EXPECT(comm.rank() == 0 && comm.size() == 1);
  EXPECT(comm.local_rank() == 0 && comm.local_size() == 1);
  EXPECT(!comm.strategy().empty());
  EXPECT(!comm.name_of(0).empty());
  EXPECT(!comm.explain(1000, passing::DataType::float32).empty());
  EXPECT(!comm.error());
}

void operations(passing::Communicator& comm) {
  const float input[3] = {1.5F, -2, 3};
  float output[3] = {};
  EXPECT(comm.all_reduce(input, output, 3, passing::DataType::float32).wait());
  EXPECT(output[0] == 1.5F && output[1] == -2 && output[2] == 3);
  EXPECT(comm.broadcast(output, 3, passing::DataType::float32, 0).wait());
  const passing::Operation barrier = comm.barrier({std::chrono::seconds(10)});
  EXPECT(barrier.wait());
  EXPECT(barrier.test());
  barrier.cancel();
  EXPECT(!comm.send(input, sizeof input, 7, 1).wait());
  EXPECT(!comm.recv(output, sizeof output, 7, 1).wait());
}

void memory(passing::Communicator& comm) {
  const auto data = comm.allocate(2 * sizeof(float));
  EXPECT(data);
  auto* values = static_cast<float*>(*data);
  values[0] = 1.5F;
  values[1] = -2;
  EXPECT(comm.all_reduce(values, values, 2, passing::DataType::float32).wait());
  EXPECT(values[0] == 1.5F && values[1] == -2);
  EXPECT(comm.free(*data));
  EXPECT(comm.free(nullptr));
  EXPECT(comm.free(*data).error().code == passing::ErrorCode::invalid_argument);
}

void personal_operations(passing::Communicator& comm) {
  const std::int64_t input[2] = {5, -6};
  std::int64_t output[2] = {};
  const std::vector<std::size_t> counts = {2};
  const passing::DataType type = passing::DataType::int64;
  EXPECT(comm.reduce(input, output, 2, type, passing::Reduction::bit_xor, 0).wait());
  EXPECT(comm.reduce_scatter(input, output, 2, type, passing::Reduction::max).wait());
  EXPECT(comm.all_gather(input, output, 2, type).wait());
  EXPECT(comm.all_gatherv(input, output, counts, type).wait());
  EXPECT(comm.gather(input, output, 2, type, 0).wait());
  EXPECT(comm.scatter(input, output, 2, type, 0).wait());
  EXPECT(comm.all_to_all(input, output, 2, type).wait());
  EXPECT(comm.all_to_allv(input, counts, output, counts, type).wait());
  EXPECT(output[0] == 5 && output[1] == -6);
}

void groups() {
  auto comm = passing::Communicator::from_environment();
  EXPECT(comm);
  about(*comm);
  auto part = comm->split(0);
  EXPECT(part && *part);
  passing::Communicator moved = std::move(**part);
  EXPECT(moved.barrier().wait());
  moved = std::move(*comm);
  operations(moved);
  memory(moved);
  personal_operations(moved);
}

}  // namespace

int main() {
  words();
  settings();
  groups();
  std::puts("whole_api: all is there");
}
