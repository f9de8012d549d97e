// Open MPI's collectives. Started by mpirun, whose --mca settings choose the algorithms. PEER_ALGORITHM=block
// takes MPI_Reduce_scatter_block: without it, reduce_scatter is MPI_Reduce_scatter, which is a ring by
// default where the other reduces to one rank and scatters (4 ranks, 1 MiB or more).
#include <mpi.h>

#include "peer.h"

// Open MPI's leaks at its end are not ours. Its plug-ins are unloaded by then, so that no suppression knows
// them.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }  // NOLINT

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  peer::Job job = peer::parse(argc, argv);
  peer::one_at_a_time(job);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  job.take_place(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size));
  const std::string how = peer::algorithm("default");
  const bool block = how == "block" && job.collective == peer::Collective::reduce_scatter;
  if (how != "default" && !block)
    peer::absent(fmt::format("PEER_ALGORITHM {} for {}: use mpirun --mca", how, job.name()));

  const int count = static_cast<int>(job.elements);
  const int part = static_cast<int>(job.part);
  const std::vector<int> parts(job.size, part);
  auto data = peer::make_data(job);
  const auto run = [&](std::size_t i) {
    const float* in = data[i].input.data();
    float* out = data[i].output.data();
    switch (job.collective) {
      case peer::Collective::all_reduce:
        MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case peer::Collective::broadcast: MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
      case peer::Collective::all_gather:
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, part, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case peer::Collective::reduce_scatter:
        if (block)
          MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else
          MPI_Reduce_scatter(in, out, parts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case peer::Collective::all_to_all:
        MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    }
  };
  const auto result = peer::measure(
      job, data, run, [](std::size_t) { return true; }, [&](std::size_t i) { return data[i].output.data(); });
  const int status = peer::report(job, result, how);
  MPI_Finalize();
  return status;
}
