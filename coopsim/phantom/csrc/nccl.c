/* NCCL: communicators, which know their rank and size. */
#include "nccl.h"
#include <unistd.h>

typedef struct { char bytes[128]; } Id;  /* ncclUniqueId */

static Result new_comm(Comm **out, int size, int rank, uint64_t id) {
  Comm *c = calloc(1, sizeof *c);
  size_t bytes = setting(size == 2 ? "COOPSIM_PHANTOM_NCCL_2" : "COOPSIM_PHANTOM_NCCL");
  *c = (Comm){.rank = rank, .size = size, .id = id};
  c->sent = calloc((size_t)size, sizeof *c->sent);
  c->got = calloc((size_t)size, sizeof *c->got);
  *out = c;
  if (!bytes || size == 1) return SUCCESS;
  if (cudaMalloc(&c->buffers, bytes)) return UNHANDLED_CUDA_ERROR;
  coopsim_phantom_count_nccl(bytes);
  return SUCCESS;
}
static Result drop(Comm *c) {
  cudaFree(c->buffers);
  free(c->sent);
  free(c->got);
  free(c);
  return SUCCESS;
}
static uint64_t number_of(Id id) { uint64_t n; memcpy(&n, &id, sizeof n); return n; }

Result ncclGetVersion(int *version) { *version = 22907; return SUCCESS; }
static const char *refused = "";  /* what was asked last that cannot be answered */
static Result refuse(const char *asked) { refused = asked; return INVALID_ARGUMENT; }
const char *ncclGetErrorString(int error) {
  return error == UNHANDLED_CUDA_ERROR ? "the phantom GPU has no memory left for NCCL"
       : error ? refused : "no error";
}
const char *ncclGetLastError(UNUSED Comm *c) { return ""; }

Result ncclGetUniqueId(Id *id) {
  static uint32_t made;
  uint64_t n = (uint64_t)getpid() << 32 | __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
  memset(id, 1, sizeof *id);
  memcpy(id, &n, sizeof n);
  return SUCCESS;
}
Result ncclCommGetUniqueId(UNUSED Comm *c, Id *id) { return ncclGetUniqueId(id); }

Result ncclCommInitRank(Comm **c, int size, Id id, int rank) { return new_comm(c, size, rank, number_of(id)); }
Result ncclCommInitRankConfig(Comm **c, int size, Id id, int rank, UNUSED void *config) {
  return new_comm(c, size, rank, number_of(id));
}
Result ncclCommInitAll(Comm **c, int size, UNUSED const int *devices) {
  if (size > 1) return refuse("ncclCommInitAll: one process with several cards is not simulated (CUDA_VISIBLE_DEVICES=0 shows one)");
  return new_comm(c, 1, 0, 0);
}
Result ncclCommInitRankScalable(Comm **c, int size, int rank, UNUSED int n, Id *ids, UNUSED void *config) {
  return new_comm(c, size, rank, number_of(ids[0]));
}

/* How many ranks share a color only they know, so imagined ones cannot be split. */
Result ncclCommSplit(Comm *c, int color, int key, Comm **out, UNUSED void *config) {
  uint64_t id = (c->id * 31 + ++c->splits) * 31 + (uint64_t)color;
  int mine[2] = {color, key}, (*all)[2], size = 0, rank = 0;
  *out = NULL;
  if (c->size > 1 && !nccl_exchanges(c, sizeof mine))
    return refuse("ncclCommSplit: a communicator whose other ranks are imagined cannot be split");
  all = calloc((size_t)c->size, sizeof *all);
  if (c->size > 1) nccl_exchange(c, mine, sizeof mine, (char *)all);
  else memcpy(all, mine, sizeof mine);
  for (int r = 0; r < c->size; r++)
    if (all[r][0] == color) { size++; rank += all[r][1] < key || (all[r][1] == key && r < c->rank); }
  free(all);
  return color < 0 ? SUCCESS : new_comm(out, size, rank, id);
}

Result ncclCommCount(const Comm *c, int *n) { *n = c->size; return SUCCESS; }
Result ncclCommUserRank(const Comm *c, int *rank) { *rank = c->rank; return SUCCESS; }
Result ncclCommCuDevice(UNUSED const Comm *c, int *device) { *device = 0; return SUCCESS; }
Result ncclCommGetAsyncError(UNUSED Comm *c, int *error) { *error = SUCCESS; return SUCCESS; }
Result ncclCommDestroy(Comm *c) { return drop(c); }
Result ncclCommAbort(Comm *c) { return drop(c); }
Result ncclCommRegister(UNUSED Comm *c, UNUSED void *p, UNUSED size_t n, void **out) { return new_handle(out); }
Result ncclCommWindowRegister(UNUSED Comm *c, UNUSED void *p, UNUSED size_t n, void **out, UNUSED int flags) {
  return new_handle(out);
}
Result ncclCommMemStats(UNUSED Comm *c, UNUSED int stat, uint64_t *value) { *value = 0; return SUCCESS; }
Result ncclMemAlloc(void **p, size_t n) { return cudaMalloc(p, n) ? UNHANDLED_CUDA_ERROR : SUCCESS; }
Result ncclMemFree(void *p) { cudaFree(p); return SUCCESS; }
