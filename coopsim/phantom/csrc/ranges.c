/* Device addresses: one large region of them is reserved at one place, so that they are the same in every run.
 *
 * Where a segment lies decides ties of PyTorch's allocator up to 2.11, and so peaks. cudaMalloc's are put where a card
 * put them; the rule is that of coopsim/simulate/allocators/caching/device.py, and so are the addresses. */
#define _GNU_SOURCE
#include "phantom.h"
#include <sys/mman.h>

#define REGION (8ull << 40)
#define SMALLEST_REGION (16ull << 30)
#define WANTED_TOP (1ull << 46)
#define CHUNK (32ull << 20)

/* A chunk holds segments, and is known by them: without one it is gone. A reservation is a chunk that it fills. */
typedef struct { uint64_t base, bytes, chunk, chunk_bytes, made; int is_reservation; } Range;

static uint64_t region, top, n_made;
static Range *ranges;  /* sorted by base, disjoint */
static size_t n_ranges, room;

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
static uint64_t chunk_end(size_t i) { return ranges[i].chunk + ranges[i].chunk_bytes; }

void phantom_reserve_region(void) {
  if (region) return;
  uint64_t bytes = REGION;
  void *p;
  do  /* MAP_NORESERVE: addresses, not memory; under a limit on address space a smaller region will do */
    p = mmap((void *)(WANTED_TOP - bytes), bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  while (p == MAP_FAILED && (bytes /= 2) >= SMALLEST_REGION);
  if (p == MAP_FAILED) { perror("coopsim phantom: cannot reserve addresses"); abort(); }
  top = ((uint64_t)p + bytes) / CHUNK * CHUNK;
  region = round_up((uint64_t)p, CHUNK);
}

int phantom_on_device(const void *p) {
  uint64_t a = (uint64_t)p;
  return region && a >= region && a < top;
}

static uint64_t insert(size_t i, Range range) {
  if (n_ranges == room) {
    room = room ? 2 * room : 256;
    ranges = realloc(ranges, room * sizeof *ranges);
    if (!ranges) abort();
  }
  memmove(ranges + i + 1, ranges + i, (n_ranges - i) * sizeof *ranges);
  ranges[i] = range;
  n_ranges++;
  return range.base;
}

/* Reservations go to the low end, first fit, out of the way of chunks. */
uint64_t phantom_reserve(uint64_t bytes, uint64_t align) {
  phantom_reserve_region();
  uint64_t at = round_up(region, align);
  size_t i = 0;
  for (; i < n_ranges && ranges[i].chunk < at + bytes; i++)
    if (chunk_end(i) > at) at = round_up(chunk_end(i), align);
  if (at + bytes > top) return 0;
  return insert(i, (Range){at, bytes, at, bytes, 0, 1});
}

/* The newest chunk with a gap that is large enough, and the low end of its smallest such gap. */
static uint64_t in_chunk(uint64_t bytes) {
  size_t i = 0, before = 0;
  uint64_t smallest = 0;
  Range found = {0};
  while (i < n_ranges) {
    Range first = ranges[i];
    uint64_t at = first.chunk, end = chunk_end(i);
    for (int inside = 1; inside; i += inside) {
      inside = i < n_ranges && ranges[i].chunk == first.chunk;
      uint64_t gap = (inside ? ranges[i].base : end) - at;
      if (gap >= bytes && (first.made > found.made || (first.made == found.made && gap < smallest))) {
        found = (Range){at, bytes, first.chunk, first.chunk_bytes, first.made, 0};
        before = i;
        smallest = gap;
      }
      if (inside) at = ranges[i].base + ranges[i].bytes;
    }
  }
  return found.base ? insert(before, found) : 0;
}

/* A new chunk, at the top of the highest hole. One that the chunk would fill does not do: those that align what mmap
 * gives them ask for more than they need. */
static uint64_t in_new_chunk(uint64_t bytes) {
  uint64_t size = round_up(bytes, CHUNK), high = top;
  size_t i = n_ranges;
  while (i && high <= chunk_end(i - 1) + size) {
    high = ranges[i - 1].chunk / CHUNK * CHUNK;  /* a reservation may begin anywhere */
    while (i && ranges[i - 1].chunk >= high) i--;
  }
  if (!i && high - region < size) return 0;
  return insert(i, (Range){high - size, bytes, high - size, size, ++n_made, 0});
}

uint64_t phantom_take_segment(uint64_t bytes) {
  uint64_t at = in_chunk(bytes);
  return at ? at : in_new_chunk(bytes);
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

uint64_t phantom_drop_range(uint64_t base, int is_reservation) {
  size_t i = upper(base);
  if (!i || ranges[i - 1].base != base || ranges[i - 1].is_reservation != is_reservation) return 0;
  uint64_t bytes = ranges[i - 1].bytes;
  memmove(ranges + i - 1, ranges + i, (n_ranges - i) * sizeof *ranges);
  n_ranges--;
  return bytes;
}
