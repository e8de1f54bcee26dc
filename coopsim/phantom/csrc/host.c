/* Host memory that programs get from the runtime: pinned and managed. Addresses are reserved, and take memory of this
 * machine only where something is written.
 *
 * Managed memory moves between host and card as it is used. What a card has no room for goes to the host, so it never
 * makes an allocation fail; it is counted apart. */
#define _GNU_SOURCE
#include "clock.h"
#include "host.h"
#include <sys/mman.h>

enum { PAGE = 4096 };
typedef enum { REGISTERED, PINNED, MANAGED } Kind;
typedef struct { uint64_t base, bytes; Kind kind; } Block;

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static Block *blocks;
static size_t n_blocks, room;
static uint64_t managed, managed_peak;

static void add(const void *p, size_t n, Kind kind) {
  pthread_mutex_lock(&guard);
  if (n_blocks == room) {
    room = room ? 2 * room : 64;
    blocks = realloc(blocks, room * sizeof *blocks);
    if (!blocks) abort();
  }
  blocks[n_blocks++] = (Block){(uint64_t)p, n, kind};
  if (kind == MANAGED) managed += n;
  if (managed > managed_peak) managed_peak = managed;
  pthread_mutex_unlock(&guard);
}

static Block drop(const void *p) {
  Block found = {0};
  pthread_mutex_lock(&guard);
  for (size_t i = n_blocks; i-- > 0;)
    if (blocks[i].base == (uint64_t)p) { found = blocks[i]; blocks[i] = blocks[--n_blocks]; break; }
  if (found.kind == MANAGED) managed -= found.bytes;
  pthread_mutex_unlock(&guard);
  return found;
}

static Block holder(const void *p) {
  Block found = {0};
  pthread_mutex_lock(&guard);
  for (size_t i = 0; i < n_blocks && !found.base; i++)
    if ((uint64_t)p - blocks[i].base < blocks[i].bytes) found = blocks[i];
  pthread_mutex_unlock(&guard);
  return found;
}

int phantom_is_managed(const void *p) { return holder(p).kind == MANAGED; }
int phantom_is_pinned(const void *p) { Block b = holder(p); return b.base && b.kind != MANAGED; }
uint64_t coopsim_phantom_managed(void) { return managed_peak; }

/* Pages that are zero already are left alone: writing to them would take memory for them. */
void phantom_blank(void *p, size_t n) {
  static const char zeros[PAGE];
  Block own = holder(p);
  char *at = p, *end = at + n;
  char *from = (char *)(((uint64_t)at + PAGE - 1) / PAGE * PAGE), *to = (char *)((uint64_t)end / PAGE * PAGE);
  if (own.kind == PINNED && from < to) {
    madvise(from, (size_t)(to - from), MADV_DONTNEED);
    memset(at, 0, (size_t)(from - at));
    memset(to, 0, (size_t)(end - to));
    return;
  }
  while (at < end) {
    size_t part = PAGE - (uint64_t)at % PAGE;
    if (part > (size_t)(end - at)) part = (size_t)(end - at);
    if (memcmp(at, zeros, part)) memset(at, 0, part);
    at += part;
  }
}

static Status take(void **p, size_t n, Kind kind) {
  size_t bytes = (n ? n : 1) + PAGE - 1;
  bytes -= bytes % PAGE;
  *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*p == MAP_FAILED) { *p = NULL; return phantom_fail(OUT_OF_MEMORY); }
  add(*p, bytes, kind);
  return OK;
}

static Status give_back(void *p, Kind kind) {
  if (!p) return OK;
  Block own = holder(p);
  if (own.base != (uint64_t)p || own.kind != kind) return phantom_fail(INVALID_VALUE);
  drop(p);
  munmap(p, own.bytes);
  return OK;
}

Status cudaMallocHost(void **p, size_t n) {
  phantom_page_lock(n);
  return take(p, n, PINNED);
}
Status cudaHostAlloc(void **p, size_t n, UNUSED unsigned flags) { return cudaMallocHost(p, n); }
Status cudaFreeHost(void *p) { return give_back(p, PINNED); }
Status cudaHostRegister(void *p, size_t n, UNUSED unsigned flags) { add(p, n, REGISTERED); return OK; }
Status cudaHostUnregister(void *p) { drop(p); return OK; }
Status cudaHostGetDevicePointer(void **out, void *p, UNUSED unsigned flags) { *out = p; return OK; }
Status cudaHostGetFlags(unsigned *flags, UNUSED void *p) { *flags = 0; return OK; }

Status cudaMallocManaged(void **p, size_t n, UNUSED unsigned flags) { return take(p, n, MANAGED); }
Status phantom_free_managed(void *p) { return give_back(p, MANAGED); }

/* Advice: what is used is there. What moving it would take is not modelled. */
Status cudaMemPrefetchAsync(void) { return OK; }
Status cudaMemPrefetchAsync_v2(void) { return OK; }
Status cudaMemAdvise(void) { return OK; }
Status cudaMemAdvise_v2(void) { return OK; }
Status cudaStreamAttachMemAsync(void) { return OK; }
