/* Device memory: how many bytes of the card are taken. */
#include "clock.h"
#include "contents.h"
#include "host.h"

#define PITCH 512

pthread_mutex_t phantom_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t total, limit, used, peak, context;  /* total: what programs are told; limit: where memory runs out */

static void begin(void) {  /* the lock is held */
  static int begun;
  if (begun) return;
  begun = 1;
  phantom_reserve_region();
  total = phantom_settings()->total;
  limit = phantom_settings()->limit;
  used = peak = context = phantom_settings()->context;
}

static void lock(void) { pthread_mutex_lock(&phantom_lock); begin(); }
static void unlock(void) { pthread_mutex_unlock(&phantom_lock); }
static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

int phantom_charge(uint64_t bytes) {
  begin();
  if (used + bytes > limit) return 0;
  used += bytes;
  if (used > peak) peak = used;
  return 1;
}

void phantom_refund(uint64_t bytes) { used -= bytes; }

/* The context grows whether there is room or not: memory then runs out at the next request of PyTorch's allocator, which
 * is where a script can be told of it; a card refuses the handle, an error of another kind. */
void coopsim_phantom_loaded(int library) {
  static int seen[GROWING_LIBRARIES];
  lock();
  if (!seen[library]) {
    seen[library] = 1;
    context += phantom_settings()->grows[library];
    used += phantom_settings()->grows[library];
    if (used > peak) peak = used;
  }
  unlock();
}
uint64_t coopsim_phantom_context(void) { lock(); uint64_t n = context; unlock(); return n; }

/* --- control, for tests and for coopsim itself --- */

void coopsim_phantom_set_total(uint64_t bytes) { lock(); total = limit = bytes; unlock(); }
uint64_t coopsim_phantom_used(void) { lock(); uint64_t n = used; unlock(); return n; }
static uint64_t nccl;  /* taken by communicators, whether they still live or not */
void coopsim_phantom_count_nccl(size_t bytes) { lock(); nccl += bytes; unlock(); }
uint64_t coopsim_phantom_nccl(void) { lock(); uint64_t n = nccl; unlock(); return n; }
uint64_t coopsim_phantom_peak(void) { lock(); uint64_t n = peak; unlock(); return n; }

/* --- the runtime's calls --- */

Status cudaMalloc(void **p, size_t n) {
  uint64_t bytes = round_up(n ? n : 1, GRANULE), at = 0;
  lock();
  if (phantom_charge(bytes)) {
    at = phantom_take_segment(bytes);
    if (!at) phantom_refund(bytes);
  }
  unlock();
  *p = (void *)at;
  LOG("cudaMalloc(%zu) = %#lx\n", n, at);
  if (at) phantom_host(phantom_settings()->segment_alloc);
  return phantom_fail(at ? OK : OUT_OF_MEMORY);
}

Status cudaFree(void *p) {
  if (!p) return OK;
  if (phantom_is_managed(p)) return phantom_free_managed(p);
  lock();
  uint64_t bytes = phantom_drop_range((uint64_t)p, 0);
  phantom_refund(bytes);
  if (bytes) phantom_clear(p, bytes);
  unlock();
  LOG("cudaFree(%p) %lu\n", p, bytes);
  phantom_device_wait();
  phantom_host(phantom_settings()->segment_free);
  return phantom_fail(bytes ? OK : INVALID_VALUE);
}

Status cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
  *pitch = round_up(width ? width : 1, PITCH);
  return cudaMalloc(p, *pitch * height);
}
Status cudaMallocFromPoolAsync(void **p, size_t n, UNUSED void *pool, UNUSED void *stream) { return cudaMalloc(p, n); }
Status cudaMallocAsync(void **p, size_t n, UNUSED void *stream) { return cudaMalloc(p, n); }
Status cudaFreeAsync(void *p, UNUSED void *stream) { return cudaFree(p); }

Status cudaMemGetInfo(size_t *free_, size_t *total_) {
  lock();
  *free_ = total > used ? total - used : 0;
  *total_ = total;
  unlock();
  return OK;
}
