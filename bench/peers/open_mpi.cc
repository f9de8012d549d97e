// Open MPI's all-reduce: the same loop, arguments and report as the other peers. Started by mpirun.
#include <fmt/format.h>
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) {
    fmt::print(stderr, "usage: mpirun ... peer_open_mpi ELEMENTS REPEAT WARM_UP\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::size_t elements = std::strtoull(argv[1], nullptr, 10);
  const int repeat = std::atoi(argv[2]);
  const int warm_up = std::atoi(argv[3]);

  std::vector<float> tensor(elements);
  std::vector<double> seconds;
  double begin = 0;
  double total = 0;
  bool right = true;
  for (int i = 0; i < warm_up + repeat; ++i) {
    if (i == 0 || i + 1 == warm_up + repeat)
      std::fill(tensor.begin(), tensor.end(), static_cast<float>(rank + 1));
    if (i == warm_up) begin = MPI_Wtime();
    const double started = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(elements), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    if (i >= warm_up) seconds.push_back(MPI_Wtime() - started);
    total = MPI_Wtime() - begin;
  }
  const auto expected = static_cast<float>(size * (size + 1) / 2);
  right = std::all_of(tensor.begin(), tensor.end(), [&](float value) { return value == expected; });
  std::sort(seconds.begin(), seconds.end());
  fmt::print(
      "{{\"ok\": {}, \"rank\": {}, \"bytes\": {}, \"repeat\": {}, \"median_seconds\": {}, \"total_seconds\": "
      "{}, "
      "\"verified\": true}}\n",
      right, rank, 4 * elements, repeat, seconds[seconds.size() / 2], total);
  std::fflush(stdout);
  MPI_Finalize();
  return right ? 0 : 1;
}
