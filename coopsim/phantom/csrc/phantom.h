/* What the files of the stand-in CUDA runtime share.
 *
 * PyTorch's CUDA wheels link the runtime dynamically, so libraries of the same names, found first, are enough to run
 * them without a GPU: memory is book-keeping over reserved addresses, kernels are accepted and never run.
 * No CUDA header is used. The card is described by environment variables, all read once (settings.c):
 *
 *   COOPSIM_PHANTOM_TOTAL           bytes of device memory
 *   COOPSIM_PHANTOM_LIMIT           bytes of it that can be taken, though programs are told TOTAL (TOTAL)
 *   COOPSIM_PHANTOM_CONTEXT         bytes of it that the context takes when the process begins to use the card
 *   COOPSIM_PHANTOM_CUBLAS          bytes that it grows by when cuBLAS is first used (0); the same of
 *   COOPSIM_PHANTOM_CUBLASLT, _CUDNN, _CUSOLVER, _CUFFT
 *   COOPSIM_PHANTOM_NAME            the name that programs see
 *   COOPSIM_PHANTOM_CC              compute capability, as 8.0
 *   COOPSIM_PHANTOM_SMS             multiprocessors
 *   COOPSIM_PHANTOM_THREADS_PER_SM  resident threads of one
 *   COOPSIM_PHANTOM_SHARED_PER_SM   bytes of shared memory of one
 *   COOPSIM_PHANTOM_SHARED_OPTIN    bytes of it that one block may ask for
 *   COOPSIM_PHANTOM_L2              bytes of L2 cache
 *   COOPSIM_PHANTOM_CLOCK           of the multiprocessors, kHz
 *   COOPSIM_PHANTOM_MEMORY_CLOCK    kHz, of a bus of MEMORY_BUS bits
 *   COOPSIM_PHANTOM_COPY            the largest copy into device memory that is really made, bytes (1 MiB)
 *   COOPSIM_PHANTOM_WORKSPACES      1: cuDNN asks for workspaces by rule (cudnn_sizes.c), else for none (0)
 *   COOPSIM_PHANTOM_DEVICES         devices that a process sees (1); it is meant to use one of them
 *   COOPSIM_PHANTOM_DISPATCH        host time of an op that PyTorch dispatches, ns (10000)
 *   COOPSIM_PHANTOM_LAUNCH          of it that of the launch, ns (5000)
 *   COOPSIM_PHANTOM_KERNEL          the least time of a kernel, and of one of which nothing is known, ns (3000)
 *   COOPSIM_PHANTOM_QUEUE           launches of a stream that may wait for it (1024)
 *   COOPSIM_PHANTOM_SEGMENT_ALLOC   host time of a cudaMalloc or cuMemCreate, ns (300000)
 *   COOPSIM_PHANTOM_SEGMENT_FREE    host time of a cudaFree or cuMemUnmap, ns (300000)
 *   COOPSIM_PHANTOM_BUS             bytes that a copy between host and card moves in a microsecond (25000)
 *   COOPSIM_PHANTOM_NCCL            what a communicator of more than two ranks takes of the card, bytes (0)
 *   COOPSIM_PHANTOM_NCCL_2          the same of one of two ranks
 *   COOPSIM_PHANTOM_PEERS           a folder that the processes of all ranks share (nccl.h); none: others are imagined
 *   COOPSIM_PHANTOM_LOG             1: each cudaMalloc, cudaFree, cuMem* on stderr; and each copy and fill, and what
 *                                   orders streams: events, waits, and what the host knows to be done
 *   COOPSIM_PHANTOM_STUBS           1: names each stub at its first call, on stderr
 */
#ifndef COOPSIM_PHANTOM_H
#define COOPSIM_PHANTOM_H

#include "libraries.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Status;  /* cudaError_t and CUresult; the values used here are the same in both */
enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, ILLEGAL_STATE = 401, NOT_READY = 600,
  NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURED_EVENT = 907
};

#define UNUSED __attribute__((unused))
#define GRANULE (2ull << 20)  /* cudaMalloc and cuMemCreate hand out multiples of 2 MiB */

typedef struct {
  uint64_t total, limit, context, grows[GROWING_LIBRARIES], copy_limit, shared_per_sm, shared_optin;
  uint64_t dispatch, launch, kernel, queue, segment_alloc, segment_free, page_lock, bus;  /* of the clock */
  int sms, threads_per_sm, major, minor, l2, clock, memory_clock, log, devices;
  char name[256];
} Settings;

const Settings *phantom_settings(void);
Status phantom_fail(Status status);      /* remembers it for cudaGetLastError */
int phantom_on_device(const void *p);    /* is it an address that we handed out? */
void *phantom_handle(void);              /* a fresh opaque handle */
uint64_t phantom_capture_of(void *stream);  /* the number of the capture that the stream is in; 0: none */
Status phantom_join_capture(void *stream, uint64_t capture);
Status phantom_wait(void *stream);       /* fails if the stream is captured */

/* Address ranges of the reserved region (ranges.c). The caller holds phantom_lock. */
extern pthread_mutex_t phantom_lock;
void phantom_reserve_region(void);       /* if it is not */
uint64_t phantom_take_segment(uint64_t bytes);  /* as cudaMalloc places it; 0: no room. The region is reserved. */
uint64_t phantom_reserve(uint64_t bytes, uint64_t align);
uint64_t phantom_drop_range(uint64_t base, int is_reservation);  /* its bytes; 0: there is no such range */
int phantom_find_range(uint64_t address, uint64_t *base, uint64_t *bytes);
int phantom_charge(uint64_t bytes);      /* 0 when the card has no room */
void phantom_refund(uint64_t bytes);

#define LOG(...) do { if (phantom_settings()->log) fprintf(stderr, "phantom: " __VA_ARGS__); } while (0)

#endif
