// Sums a tensor over all ranks, and broadcasts a number. With any number of ranks, for instance
//
//   passing lab run --hosts 2 --ranks 2 -- env PASSING_STRATEGY=passing ./all_reduce
//   PASSING_DIRECTORY=$(mktemp -d) mpirun -n 4 ./all_reduce
//
// The first, as root, makes hosts and a switch on this machine; between two hosts the default strategy, auto,
// would not use the switch. The second needs any launcher, and a directory that all ranks share.
#include <passing/communicator.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

// Whole numbers this small have exact sums, so the check can be exact, too.
float element(std::size_t index, std::uint32_t factor) {
  return static_cast<float>(index % 100) * static_cast<float>(factor);
}

int complain(const passing::Error& error) {
  std::fprintf(stderr, "all_reduce: %s: %s\n", passing::to_string(error.code), error.message.c_str());
  return 1;
}

}  // namespace

int main() {
  auto comm = passing::Communicator::from_environment();
  if (!comm) return complain(comm.error());

  std::vector<float> tensor(1'000'000);
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = element(i, comm->rank() + 1);
  const passing::Operation sum =
      comm->all_reduce(tensor.data(), tensor.data(), tensor.size(), passing::DataType::float32);
  // The operation goes on by itself: here is the time for something else.
  if (const auto ended = sum.wait(); !ended) return complain(ended.error());

  const std::uint32_t factors = comm->size() * (comm->size() + 1) / 2;  // 1 + 2 + ... + size
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    if (tensor[i] == element(i, factors)) continue;
    std::fprintf(stderr, "all_reduce: element %zu is %g on rank %u, not %g\n", i,
                 static_cast<double>(tensor[i]), comm->rank(), static_cast<double>(element(i, factors)));
    return 1;
  }

  std::int32_t seed = comm->rank() == 0 ? 42 : 0;
  const passing::Operation broadcast = comm->broadcast(&seed, 1, passing::DataType::int32, 0);
  if (const auto ended = broadcast.wait(); !ended) return complain(ended.error());
  if (seed != 42) {
    std::fprintf(stderr, "all_reduce: the seed is %d on rank %u, not 42\n", seed, comm->rank());
    return 1;
  }

  if (comm->rank() == 0) {
    std::printf("all_reduce: size %u, strategy %s: %zu float32 summed, every element right; seed %d\n",
                comm->size(), comm->strategy().c_str(), tensor.size(), seed);
  }
  return 0;
}
