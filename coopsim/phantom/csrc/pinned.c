/* Pinned host memory: programs ask whether an address is in it. */
#include "phantom.h"

enum { PAGE = 4096 };
typedef struct { uint64_t base, bytes; } Pinned;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Pinned *all;
static size_t n_all, room;

static void add(const void *p, size_t n) {
  pthread_mutex_lock(&mutex);
  if (n_all == room) {
    room = room ? 2 * room : 64;
    all = realloc(all, room * sizeof *all);
    if (!all) abort();
  }
  all[n_all++] = (Pinned){(uint64_t)p, n};
  pthread_mutex_unlock(&mutex);
}
static void drop(const void *p) {
  pthread_mutex_lock(&mutex);
  for (size_t i = n_all; i-- > 0;)
    if (all[i].base == (uint64_t)p) { all[i] = all[--n_all]; break; }
  pthread_mutex_unlock(&mutex);
}
int phantom_is_pinned(const void *p) {
  int found = 0;
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < n_all && !found; i++) found = (uint64_t)p - all[i].base < all[i].bytes;
  pthread_mutex_unlock(&mutex);
  return found;
}

Status cudaHostAlloc(void **p, size_t n, UNUSED unsigned flags) {
  if (posix_memalign(p, PAGE, n ? n : 1)) return phantom_fail(OUT_OF_MEMORY);
  add(*p, n ? n : 1);
  return OK;
}
Status cudaFreeHost(void *p) {
  drop(p);
  free(p);
  return OK;
}
Status cudaHostRegister(void *p, size_t n, UNUSED unsigned flags) { add(p, n); return OK; }
Status cudaHostUnregister(void *p) { drop(p); return OK; }
