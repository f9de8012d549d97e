/* The C interface: the same communicator, for C and for anything that can call C (Python's ctypes, say).
 *
 * Functions return PASSING_OK or a code; passing_error() then says what was wrong, for the calling thread.
 * docs/errors.md has the codes. Threads and buffers: as in communicator.h; a passing_config belongs to one
 * thread at a time. Freeing null does nothing. */
#ifndef PASSING_PASSING_H
#define PASSING_PASSING_H

#include <stddef.h>
#include <stdint.h>

#include "passing/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum passing_status {
  PASSING_OK = 0,
  PASSING_INVALID_ARGUMENT = 1,
  PASSING_NO_CAPACITY = 2,
  PASSING_DISAGREEMENT = 3,
  PASSING_DEADLINE = 4,
  PASSING_UNREACHABLE = 5,
  PASSING_EPOCH_ENDED = 6,
  PASSING_PEER_LOST = 7,
  PASSING_CANCELLED = 8,
  PASSING_SYSTEM_ERROR = 100 /* out of memory or threads: what throws in C++ */
} passing_status;

/* int, so that a value that does not exist can be refused. */
typedef int passing_type;
enum {
  PASSING_FLOAT32 = 1,
  PASSING_FLOAT16 = 2,
  PASSING_BFLOAT16 = 3,
  PASSING_INT32 = 4,
  PASSING_FLOAT64 = 5,
  PASSING_INT8 = 6,
  PASSING_UINT8 = 7,
  PASSING_INT16 = 8,
  PASSING_UINT16 = 9,
  PASSING_UINT32 = 10,
  PASSING_INT64 = 11,
  PASSING_UINT64 = 12,
  PASSING_BOOLEAN = 13 /* a byte: 0 is false, anything else true; results are 0 or 1 */
};

/* int, so that a value that does not exist can be refused. Which of them a type can do: docs/numerics.md,
 * section 8. */
typedef int passing_reduction;
enum {
  PASSING_SUM = 1,
  PASSING_AVERAGE = 2,
  PASSING_PRODUCT = 3,
  PASSING_MIN = 4,
  PASSING_MAX = 5,
  PASSING_BIT_AND = 6,
  PASSING_BIT_OR = 7,
  PASSING_BIT_XOR = 8
};

typedef struct passing_config passing_config;
typedef struct passing_comm passing_comm;
typedef struct passing_op passing_op;
typedef struct passing_blobs passing_blobs;

/* What the last call of this thread that failed had to say; never null, good until the next one that fails.
 */
PASSING_API const char* passing_error(void);
/* The ranks it concerned: returns how many, and puts the first `most` of them into `ranks`. */
PASSING_API size_t passing_error_ranks(uint32_t* ranks, size_t most);
PASSING_API const char* passing_version(void);

/* Settings: those of config.h, by name ("rank", "size", "strategy", "timeout" in seconds, ...). */
PASSING_API passing_status passing_config_new(passing_config** config);
/* From PASSING_* and the launcher's variables. */
PASSING_API passing_status passing_config_from_environment(passing_config** config);
PASSING_API passing_status passing_config_set(passing_config* config, const char* name, const char* value);
/* How ranks find each other: gives `blob`, and puts what each rank gave (this one, too) into `all` by
 * passing_blobs_set. Returns 0 if that worked. passing_create calls it, once, on its own thread. */
typedef int (*passing_exchange)(void* context, const void* blob, size_t bytes, passing_blobs* all);
PASSING_API passing_status passing_config_set_exchange(passing_config* config, passing_exchange exchange,
                                                       void* context);
/* What is wrong with it, passing_create will say. */
PASSING_API void passing_blobs_set(passing_blobs* all, uint32_t rank, const void* blob, size_t bytes);
PASSING_API void passing_config_free(passing_config* config);

/* Returns when all ranks have called it. The config is no longer needed then. */
PASSING_API passing_status passing_create(const passing_config* config, passing_comm** comm);
/* The communicator of a color, ordered by key, then by rank; *part is null for a negative color. */
PASSING_API passing_status passing_split(passing_comm* comm, int color, int key, passing_comm** part);
PASSING_API void passing_free(passing_comm* comm);

/* UINT32_MAX and "" for a communicator that is null. */
PASSING_API uint32_t passing_rank(const passing_comm* comm);
PASSING_API uint32_t passing_size(const passing_comm* comm);
PASSING_API uint32_t passing_local_rank(const passing_comm* comm);
PASSING_API uint32_t passing_local_size(const passing_comm* comm);
PASSING_API const char* passing_strategy(const passing_comm* comm);
/* Which way an all_reduce goes, and why; good until the next call of it by this thread. */
PASSING_API const char* passing_explain(const passing_comm* comm, size_t count, passing_type type,
                                        passing_reduction reduction);
/* A buffer for any operation; one that ranks of a host share, where they share memory: it need not be copied.
 * It lives until passing_release, or as long as the communicator. */
PASSING_API passing_status passing_allocate(passing_comm* comm, size_t bytes, void** data);
PASSING_API passing_status passing_release(passing_comm* comm, void* data);
/* PASSING_OK, or why every call on it fails. */
PASSING_API passing_status passing_check(const passing_comm* comm);

/* With `op`, they begin; give *op to passing_wait or passing_op_free. With null instead, they wait and say
 * how it ended. timeout in seconds; 0: the communicator's. */
PASSING_API passing_status passing_all_reduce(passing_comm* comm, const void* input, void* output,
                                              size_t count, passing_type type, passing_reduction reduction,
                                              double timeout, passing_op** op);
/* Only the root gets the result; others may give a null output. */
PASSING_API passing_status passing_reduce(passing_comm* comm, const void* input, void* output, size_t count,
                                          passing_type type, passing_reduction reduction, uint32_t root,
                                          double timeout, passing_op** op);
/* `input` has `count` elements for each rank, in order of rank; `output` gets those of this one, reduced. */
PASSING_API passing_status passing_reduce_scatter(passing_comm* comm, const void* input, void* output,
                                                  size_t count, passing_type type,
                                                  passing_reduction reduction, double timeout,
                                                  passing_op** op);
/* `output` gets `count` elements from each rank, in order of rank. `input` may be this rank's place in it. */
PASSING_API passing_status passing_all_gather(passing_comm* comm, const void* input, void* output,
                                              size_t count, passing_type type, double timeout,
                                              passing_op** op);
/* The same with counts[r] elements from rank r, passing_size of them, the same on all ranks. */
PASSING_API passing_status passing_all_gatherv(passing_comm* comm, const void* input, void* output,
                                               const size_t* counts, passing_type type, double timeout,
                                               passing_op** op);
/* As passing_all_gather, to the root; others may give a null output. */
PASSING_API passing_status passing_gather(passing_comm* comm, const void* input, void* output, size_t count,
                                          passing_type type, uint32_t root, double timeout, passing_op** op);
/* The root's `input` has `count` elements for each rank; others may give a null input. */
PASSING_API passing_status passing_scatter(passing_comm* comm, const void* input, void* output, size_t count,
                                           passing_type type, uint32_t root, double timeout, passing_op** op);
/* `count` elements from every rank to every rank. Input and output must be apart. */
PASSING_API passing_status passing_all_to_all(passing_comm* comm, const void* input, void* output,
                                              size_t count, passing_type type, double timeout,
                                              passing_op** op);
/* The same with outgoing[r] elements for rank r and incoming[r] from it, passing_size counts each, without
 * gaps. */
PASSING_API passing_status passing_all_to_allv(passing_comm* comm, const void* input, const size_t* outgoing,
                                               void* output, const size_t* incoming, passing_type type,
                                               double timeout, passing_op** op);
PASSING_API passing_status passing_broadcast(passing_comm* comm, void* buffer, size_t count,
                                             passing_type type, uint32_t root, double timeout,
                                             passing_op** op);
PASSING_API passing_status passing_barrier(passing_comm* comm, double timeout, passing_op** op);
PASSING_API passing_status passing_send(passing_comm* comm, const void* data, size_t bytes, uint32_t to,
                                        uint32_t tag, double timeout, passing_op** op);
/* `from`: a rank, or PASSING_ANY_SOURCE for the first that sends. */
#define PASSING_ANY_SOURCE UINT32_MAX
PASSING_API passing_status passing_recv(passing_comm* comm, void* data, size_t bytes, uint32_t from,
                                        uint32_t tag, double timeout, passing_op** op);
/* The same, and waits: *source gets who sent it, or PASSING_ANY_SOURCE if it failed. */
PASSING_API passing_status passing_recv_from(passing_comm* comm, void* data, size_t bytes, uint32_t from,
                                             uint32_t tag, double timeout, uint32_t* source);

/* Waits, says how it ended, and frees it. */
PASSING_API passing_status passing_wait(passing_op* op);
/* 1: it has ended; 0: not yet; -1: it is null. */
PASSING_API int passing_test(const passing_op* op);
PASSING_API void passing_cancel(passing_op* op);
/* Of a recv that has ended well: who sent it. */
PASSING_API uint32_t passing_source(const passing_op* op);
/* Without waiting: the operation goes on. */
PASSING_API void passing_op_free(passing_op* op);

#ifdef __cplusplus
}
#endif

#endif
