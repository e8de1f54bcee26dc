/* What the host finds in device memory: zeros, but where it has written itself.
 *
 * Kernels write nothing, so the only bytes that are known are those of small copies from the host. Their ranges are
 * kept here. They are forgotten when the memory is handed out again: what a new tensor reads there would be the old
 * one's data, which PyTorch's own counters (of nonzero, say) took for a count. */
#define _GNU_SOURCE
#include "contents.h"
#include <sys/mman.h>

#define PAGE 4096ull

typedef struct { uint64_t from, to; } Range;

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static Range *written;  /* sorted, disjoint */
static size_t n_written, room;

static void lock(void) { pthread_mutex_lock(&guard); }
static void unlock(void) { pthread_mutex_unlock(&guard); }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
/* Read without the lock, too: most programs that ask have written nothing. */
static int is_blank(void) { return !__atomic_load_n(&n_written, __ATOMIC_RELAXED); }

static size_t first_past(uint64_t address) {  /* the first range that ends after the address */
  size_t low = 0, high = n_written;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (written[middle].to <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Put `count` ranges in the place of those from `i` to before `end`. */
static void replace(size_t i, size_t end, const Range *with, size_t count) {
  if (n_written + count > room) {
    room = room ? 2 * room : 256;
    written = realloc(written, room * sizeof *written);
    if (!written) abort();
  }
  memmove(written + i + count, written + end, (n_written - end) * sizeof *written);
  memcpy(written + i, with, count * sizeof *with);
  __atomic_store_n(&n_written, n_written - (end - i) + count, __ATOMIC_RELAXED);
}

void phantom_wrote(const void *p, size_t n) {
  Range all = {(uint64_t)p, (uint64_t)p + n};
  if (!n) return;
  lock();
  size_t i = first_past(all.from ? all.from - 1 : 0), end = i;  /* one that ends where this begins joins it */
  for (; end < n_written && written[end].from <= all.to; end++) {
    all.from = least(all.from, written[end].from);
    all.to = most(all.to, written[end].to);
  }
  replace(i, end, &all, 1);
  unlock();
}

int phantom_is_written(const void *p, size_t n) {
  if (is_blank()) return 0;
  lock();
  size_t i = first_past((uint64_t)p);
  int found = i < n_written && written[i].from < (uint64_t)p + n;
  unlock();
  return found;
}

/* Whole pages are given back to the system, so that zeros take no memory of the host. */
static void zero(uint64_t start, uint64_t end) {
  uint64_t from = (start + PAGE - 1) / PAGE * PAGE, to = end / PAGE * PAGE;
  if (from >= to) { memset((void *)start, 0, end - start); return; }
  memset((void *)start, 0, from - start);
  madvise((void *)from, to - from, MADV_DONTNEED);
  memset((void *)to, 0, end - to);
}

void phantom_clear(void *p, size_t n) {
  uint64_t start = (uint64_t)p, stop = start + n;
  if (is_blank()) return;
  lock();
  size_t i = first_past(start), end = i, kept = 0;
  Range left[2];
  for (; end < n_written && written[end].from < stop; end++) {
    Range one = written[end];
    zero(most(one.from, start), least(one.to, stop));
    if (one.from < start) left[kept++] = (Range){one.from, start};
    if (one.to > stop) left[kept++] = (Range){stop, one.to};
  }
  if (end > i) replace(i, end, left, kept);
  unlock();
}

void phantom_read(void *to, const void *p, size_t n, void (*blank)(void *, size_t)) {
  uint64_t at = (uint64_t)p, stop = at + n;
  int64_t shift = (int64_t)((uint64_t)to - at);
  lock();
  for (size_t i = first_past(at); i < n_written && written[i].from < stop; i++) {
    uint64_t from = most(written[i].from, at), end = least(written[i].to, stop);
    if (from > at) blank((void *)(at + (uint64_t)shift), from - at);
    memcpy((void *)(from + (uint64_t)shift), (void *)from, end - from);
    at = end;
  }
  unlock();
  if (at < stop) blank((void *)(at + (uint64_t)shift), stop - at);
}
