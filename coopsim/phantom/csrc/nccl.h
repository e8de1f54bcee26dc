/* What the files of the stand-in NCCL share.
 *
 * Without COOPSIM_PHANTOM_PEERS the other ranks of a communicator are imagined (nccl_data.c says as what). With it, a
 * folder that the processes of all ranks share, messages up to EXCHANGED bytes go from rank to rank as files there:
 * that is what PyTorch sends about its own business (sizes, pickled objects, shapes). Larger ones are imagined. */
#ifndef COOPSIM_PHANTOM_NCCL_H
#define COOPSIM_PHANTOM_NCCL_H

#include "answers.h"

typedef int Result;  /* ncclResult_t */
enum { UNHANDLED_CUDA_ERROR = 1, INVALID_ARGUMENT = 4 };
enum { EXCHANGED = 64 << 10 };

/* `id` names the communicator in all its ranks; `collectives`, `splits`, `sent` and `got` count what it has done. */
typedef struct {
  int rank, size;
  uint64_t id, collectives, splits;
  uint32_t *sent, *got;
  void *buffers;
} Comm;

extern void coopsim_phantom_copy(void *to, const void *from, size_t n);
extern void coopsim_phantom_nccl_work(void *stream, uint64_t ns, size_t bytes, int ranks);
extern int cudaMalloc(void **p, size_t n);
extern int cudaFree(void *p);
extern void coopsim_phantom_count_nccl(size_t bytes);

void nccl_takes(const Comm *c, int kind, size_t bytes, void *stream);  /* its time (nccl_time.c) */
enum { ALL_REDUCE, HALF_OF_IT, ONE_TO_ALL, ONE_TO_ONE };

int nccl_exchanges(const Comm *c, size_t n);  /* do the ranks really tell each other n bytes each? */
void nccl_exchange(Comm *c, const void *mine, size_t n, char *all);  /* every rank's bytes, in order of ranks */
void nccl_send(Comm *c, int to, const void *data, size_t n);
void nccl_receive(Comm *c, int from, void *data, size_t n);  /* waits until it is there */

#endif
