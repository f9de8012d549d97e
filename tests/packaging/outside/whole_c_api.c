/* Calls every function of the C interface once, alone in its group: what the library failed to export does
 * not link. */
#include <passing/passing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "whole_c_api: %s: %s\n", what, passing_error());
  exit(1);
}
#define EXPECT(condition) expect((condition) != 0, #condition)
#define OK(call) expect((call) == PASSING_OK, #call)

static int alone(void* context, const void* blob, size_t bytes, passing_blobs* all) {
  (void)context;
  passing_blobs_set(all, 0, blob, bytes);
  return 0;
}

static passing_comm* create(void) {
  passing_config* config = NULL;
  passing_comm* comm = NULL;
  OK(passing_config_from_environment(&config));
  passing_config_free(config);
  OK(passing_config_new(&config));
  OK(passing_config_set(config, "timeout", "10"));
  OK(passing_config_set_exchange(config, alone, NULL));
  OK(passing_create(config, &comm));
  passing_config_free(config);
  return comm;
}

static void about(passing_comm* comm) {
  EXPECT(passing_rank(comm) == 0 && passing_size(comm) == 1);
  EXPECT(passing_local_rank(comm) == 0 && passing_local_size(comm) == 1);
  EXPECT(strlen(passing_strategy(comm)) > 0 && strlen(passing_version()) > 0);
  EXPECT(strlen(passing_explain(comm, 1000, PASSING_FLOAT32, PASSING_SUM)) > 0);
  OK(passing_check(comm));
}

static void collectives(passing_comm* comm) {
  const int64_t input[2] = {5, -6};
  int64_t output[2] = {0, 0};
  const size_t count = 2;
  const passing_type type = PASSING_INT64;
  OK(passing_all_reduce(comm, input, output, count, type, PASSING_SUM, 0, NULL));
  OK(passing_reduce(comm, input, output, count, type, PASSING_MAX, 0, 0, NULL));
  OK(passing_reduce_scatter(comm, input, output, count, type, PASSING_MIN, 0, NULL));
  OK(passing_all_gather(comm, input, output, count, type, 0, NULL));
  OK(passing_all_gatherv(comm, input, output, &count, type, 0, NULL));
  OK(passing_gather(comm, input, output, count, type, 0, 0, NULL));
  OK(passing_scatter(comm, input, output, count, type, 0, 0, NULL));
  OK(passing_all_to_all(comm, input, output, count, type, 0, NULL));
  OK(passing_all_to_allv(comm, input, &count, output, &count, type, 0, NULL));
  OK(passing_broadcast(comm, output, count, type, 0, 0, NULL));
  EXPECT(output[0] == 5 && output[1] == -6);
}

static void messages(passing_comm* comm) {
  char byte = 0;
  uint32_t rank = 0;
  EXPECT(passing_send(comm, &byte, 1, 7, 1, 0, NULL) == PASSING_INVALID_ARGUMENT);
  EXPECT(passing_recv(comm, &byte, 1, 7, 1, 0, NULL) == PASSING_INVALID_ARGUMENT);
  EXPECT(passing_recv_from(comm, &byte, 1, 7, 1, 0, &rank) == PASSING_INVALID_ARGUMENT);
  EXPECT(rank == PASSING_ANY_SOURCE);
  EXPECT(passing_error_ranks(&rank, 1) == 0);
}

static void operations(passing_comm* comm) {
  passing_op* op = NULL;
  OK(passing_barrier(comm, 0, &op));
  while (passing_test(op) == 0) continue;
  passing_cancel(op);
  EXPECT(passing_source(op) == 0);
  OK(passing_wait(op));
  OK(passing_barrier(comm, 0, &op));
  passing_op_free(op);
}

static void memory(passing_comm* comm) {
  void* data = NULL;
  OK(passing_allocate(comm, 100, &data));
  memset(data, 1, 100);
  OK(passing_release(comm, data));
  EXPECT(passing_release(comm, data) == PASSING_INVALID_ARGUMENT);
}

int main(void) {
  passing_comm* comm = create();
  passing_comm* part = NULL;
  about(comm);
  collectives(comm);
  messages(comm);
  operations(comm);
  memory(comm);
  OK(passing_split(comm, 0, 0, &part));
  passing_free(part);
  passing_free(comm);
  puts("whole_c_api: all is there");
  return 0;
}
