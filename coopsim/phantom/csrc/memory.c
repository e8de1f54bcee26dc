/* Device memory: which bytes of the card are taken, and at which addresses.
 *
 * One large region of untouched addresses is reserved at one place, so that addresses are the same in every run. */
#define _GNU_SOURCE
#include "clock.h"
#include "contents.h"
#include "host.h"
#include <sys/mman.h>

#define PITCH 512
#define REGION (8ull << 40)
#define SMALLEST_REGION (16ull << 30)
#define WANTED_BASE 0x100000000000ull

typedef struct { uint64_t base, bytes; int is_reservation; } Range;

pthread_mutex_t phantom_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t region, region_bytes, limit, used, peak, context;
static Range *ranges;  /* sorted by base, disjoint */
static size_t n_ranges, room;

static void reserve_region(void) {  /* the lock is held */
  if (region) return;
  region_bytes = REGION;
  void *p;
  do  /* MAP_NORESERVE: addresses, not memory; under a limit on address space a smaller region will do */
    p = mmap((void *)WANTED_BASE, region_bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  while (p == MAP_FAILED && (region_bytes /= 2) >= SMALLEST_REGION);
  if (p == MAP_FAILED) { perror("coopsim phantom: cannot reserve addresses"); abort(); }
  region_bytes -= GRANULE;
  region = ((uint64_t)p + GRANULE - 1) / GRANULE * GRANULE;
  limit = phantom_settings()->total;
  used = peak = context = phantom_settings()->context;
}

static void lock(void) { pthread_mutex_lock(&phantom_lock); reserve_region(); }
static void unlock(void) { pthread_mutex_unlock(&phantom_lock); }
static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

int phantom_on_device(const void *p) {
  uint64_t a = (uint64_t)p;
  return region && a >= region && a < region + region_bytes;
}

/* --- ranges: first fit from the low end, as the driver mostly does --- */

uint64_t phantom_take_range(uint64_t bytes, uint64_t align, int is_reservation) {
  reserve_region();
  uint64_t at = round_up(region, align);
  size_t i = 0;
  for (; i < n_ranges && ranges[i].base < at + bytes; i++)
    if (ranges[i].base + ranges[i].bytes > at) at = round_up(ranges[i].base + ranges[i].bytes, align);
  if (at + bytes > region + region_bytes) return 0;
  if (n_ranges == room) {
    room = room ? 2 * room : 256;
    ranges = realloc(ranges, room * sizeof *ranges);
    if (!ranges) abort();
  }
  memmove(ranges + i + 1, ranges + i, (n_ranges - i) * sizeof *ranges);
  ranges[i] = (Range){at, bytes, is_reservation};
  n_ranges++;
  return at;
}

static size_t upper(uint64_t address) {  /* the number of ranges with base <= address */
  size_t low = 0, high = n_ranges;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges[middle].base <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

int phantom_find_range(uint64_t address, uint64_t *base, uint64_t *bytes) {
  size_t i = upper(address);
  if (!i || address >= ranges[i - 1].base + ranges[i - 1].bytes) return 0;
  *base = ranges[i - 1].base;
  *bytes = ranges[i - 1].bytes;
  return 1;
}

int phantom_drop_range(uint64_t base) {
  size_t i = upper(base);
  if (!i || ranges[i - 1].base != base) return 0;
  memmove(ranges + i - 1, ranges + i, (n_ranges - i) * sizeof *ranges);
  n_ranges--;
  return 1;
}

int phantom_charge(uint64_t bytes) {
  reserve_region();
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

void coopsim_phantom_set_total(uint64_t bytes) { lock(); limit = bytes; unlock(); }
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
    at = phantom_take_range(bytes, GRANULE, 0);
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
  uint64_t base = 0, bytes = 0;
  int known = phantom_find_range((uint64_t)p, &base, &bytes) && base == (uint64_t)p
              && !ranges[upper(base) - 1].is_reservation;
  if (known) {
    phantom_refund(bytes);
    phantom_clear(p, bytes);
    phantom_drop_range(base);
  }
  unlock();
  LOG("cudaFree(%p) %lu\n", p, bytes);
  phantom_device_wait();
  phantom_host(phantom_settings()->segment_free);
  return phantom_fail(known ? OK : INVALID_VALUE);
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
  *free_ = limit > used ? limit - used : 0;
  *total_ = limit;
  unlock();
  return OK;
}
