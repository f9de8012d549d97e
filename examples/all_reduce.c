/* Sums a tensor over all ranks, and broadcasts a number, in C. With any number of ranks, for instance
 *
 *   passing lab run --hosts 2 --ranks 2 -- ./all_reduce_c        hosts and a switch on this machine, as root
 *   PASSING_DIRECTORY=$(mktemp -d) mpirun -n 4 ./all_reduce_c    any launcher and a directory that all ranks
 * share
 */
#include <passing/passing.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000000 };

/* Whole numbers this small have exact sums, so the check can be exact, too. */
static float element(size_t index, uint32_t factor) { return (float)(index % 100) * (float)factor; }

static passing_comm* create(void) {
  passing_config* config = NULL;
  passing_comm* comm = NULL;
  if (passing_config_from_environment(&config) == PASSING_OK) passing_create(config, &comm);
  passing_config_free(config);
  return comm; /* null: passing_error() says why */
}

/* In two steps: begin, do something else, wait. */
static passing_status sum(passing_comm* comm, float* tensor) {
  passing_op* op = NULL;
  const passing_status status =
      passing_all_reduce(comm, tensor, tensor, COUNT, PASSING_FLOAT32, PASSING_SUM, 0, &op);
  return status == PASSING_OK ? passing_wait(op) : status;
}

static int check(const float* tensor, uint32_t rank, uint32_t size) {
  const uint32_t factors = size * (size + 1) / 2; /* 1 + 2 + ... + size */
  for (size_t i = 0; i < COUNT; ++i) {
    if (tensor[i] == element(i, factors)) continue;
    fprintf(stderr, "all_reduce: element %zu is %g on rank %u, not %g\n", i, (double)tensor[i],
            (unsigned)rank, (double)element(i, factors));
    return 0;
  }
  return 1;
}

static int run(passing_comm* comm, float* tensor) {
  const uint32_t rank = passing_rank(comm);
  const uint32_t size = passing_size(comm);
  for (size_t i = 0; i < COUNT; ++i) tensor[i] = element(i, rank + 1);
  if (sum(comm, tensor) != PASSING_OK) {
    fprintf(stderr, "all_reduce: %s\n", passing_error());
    return EXIT_FAILURE;
  }
  if (!check(tensor, rank, size)) return EXIT_FAILURE;

  int32_t seed = rank == 0 ? 42 : 0;
  if (passing_broadcast(comm, &seed, 1, PASSING_INT32, 0, 0, NULL) != PASSING_OK) { /* waits */
    fprintf(stderr, "all_reduce: %s\n", passing_error());
    return EXIT_FAILURE;
  }
  if (seed != 42) {
    fprintf(stderr, "all_reduce: the seed is %d on rank %u, not 42\n", (int)seed, (unsigned)rank);
    return EXIT_FAILURE;
  }
  if (rank == 0) {
    printf("all_reduce: size %u, strategy %s: %d float32 summed, every element right; seed %d\n",
           (unsigned)size, passing_strategy(comm), (int)COUNT, (int)seed);
  }
  return EXIT_SUCCESS;
}

int main(void) {
  passing_comm* comm = create();
  if (comm == NULL) {
    fprintf(stderr, "all_reduce: %s\n", passing_error());
    return EXIT_FAILURE;
  }
  float* tensor = malloc(COUNT * sizeof *tensor);
  if (tensor == NULL) fprintf(stderr, "all_reduce: no memory for %d elements\n", (int)COUNT);
  const int status = tensor == NULL ? EXIT_FAILURE : run(comm, tensor);
  passing_free(comm); /* before its buffers: it may still be using them */
  free(tensor);
  return status;
}
