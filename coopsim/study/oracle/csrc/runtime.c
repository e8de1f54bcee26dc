/* A CUDA runtime and driver for one purpose: PyTorch's libc10_cuda.so allocates on it without a GPU.
 *
 * Memory is first fit, lowest address first, in pages of 2 MiB; address space reserved for expandable segments is
 * handed out upwards in whole GiB with a GiB between, and never again. Events complete some ticks of a clock that the
 * caller moves. No CUDA header is used. The phantom GPU of coopsim runs whole programs; this one has addresses that a
 * request stream determines alone, and that clock. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_READY = 600, NOT_SUPPORTED = 801 };
#define GRANULE (2ull << 20)
#define GIB (1ull << 30)
#define MALLOC_BASE 0x7f0000000000ull
#define RESERVE_BASE 0x600000000000ull
#define TOTAL_GLOBAL_MEM 288 /* its place in cudaDeviceProp, since CUDA 12 */

long oracle_now, oracle_delay; /* the clock, and how long an event takes */

typedef struct { u64 address, bytes; } Range;
static Range *live; /* by address */
static size_t n_live, room;
static u64 used, reserved, *physical;
static size_t n_physical, physical_room;
static int last;

static u64 total(void) {
  static u64 bytes;
  if (!bytes) bytes = strtoull(getenv("ORACLE_TOTAL"), NULL, 10);
  return bytes;
}
static int fail(int status) { return last = status; }
static u64 round_up(u64 n, u64 to) { return (n + to - 1) / to * to; }

int cudaMalloc(void **p, size_t n) {
  u64 bytes = round_up(n, GRANULE), at = MALLOC_BASE;
  if (used + bytes > total()) return fail(OUT_OF_MEMORY);
  size_t i = 0;
  while (i < n_live && live[i].address - at < bytes) at = live[i].address + live[i].bytes, i++;
  if (n_live == room) live = realloc(live, (room = room ? 2 * room : 64) * sizeof *live);
  memmove(live + i + 1, live + i, (n_live++ - i) * sizeof *live);
  live[i] = (Range){at, bytes};
  used += bytes;
  *p = (void *)at;
  return OK;
}

int cudaFree(void *p) {
  size_t low = 0, high = n_live;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (live[middle].address < (u64)p) low = middle + 1;
    else high = middle;
  }
  if (!p) return OK;
  if (low == n_live || live[low].address != (u64)p) return fail(INVALID_VALUE);
  used -= live[low].bytes;
  memmove(live + low, live + low + 1, (--n_live - low) * sizeof *live);
  return OK;
}

int cudaMemGetInfo(size_t *free_, size_t *all) { *free_ = total() - used; *all = total(); return OK; }
static int properties(char *p) {
  memset(p, 0, 1000);
  strcpy(p, "oracle");
  *(size_t *)(p + TOTAL_GLOBAL_MEM) = total();
  return OK;
}
int cudaGetDeviceProperties(char *p, int device) { return properties(p); }
int cudaGetDeviceProperties_v2(char *p, int device) { return properties(p); }
int cudaGetLastError(void) { int status = last; last = OK; return status; }
int cudaGetDevice(int *device) { *device = 0; return OK; }
int cudaSetDevice(int device) { return OK; }
int cudaGetDeviceCount(int *n) { *n = 1; return OK; }
int cudaDriverGetVersion(int *version) { *version = 13020; return OK; }
const char *cudaGetErrorString(int status) { return "oracle: error"; }
const char *cudaGetErrorName(int status) { return "oracleError"; }

int cudaEventCreateWithFlags(long **event, unsigned flags) { *event = calloc(1, sizeof **event); return OK; }
int cudaEventDestroy(long *event) { free(event); return OK; }
int cudaEventRecord(long *event, void *stream) { *event = oracle_now + oracle_delay; return OK; }
int cudaEventQuery(long *event) { return *event <= oracle_now ? OK : fail(NOT_READY); }
int cudaEventSynchronize(long *event) {
  if (*event > oracle_now) oracle_now = *event;
  return OK;
}

/* Captures: the id of each, and its stream, -1 for all; 1 means that a stream is being captured. */
static struct { long id, stream; } captures[64];
static int n_captures;
void oracle_begin_capture(long id, long stream) {
  if (n_captures == 64) abort();
  captures[n_captures].id = id, captures[n_captures++].stream = stream;
}
void oracle_end_capture(long id) {
  for (int i = 0; i < n_captures; i++)
    if (captures[i].id == id) captures[i--] = captures[--n_captures];
}
int cudaStreamGetCaptureInfo(long stream, int *status, u64 *id) {
  *status = 0;
  for (int i = 0; i < n_captures; i++)
    if (captures[i].stream < 0 || captures[i].stream == stream) {
      *status = 1;
      if (id) *id = captures[i].id;
    }
  return OK;
}
int cudaStreamGetCaptureInfo_v2(long stream, int *status, u64 *id) { return cudaStreamGetCaptureInfo(stream, status, id); }
int cudaStreamGetCaptureInfo_v3(long stream, int *status, u64 *id) { return cudaStreamGetCaptureInfo(stream, status, id); }
int cudaStreamIsCapturing(long stream, int *status) { return cudaStreamGetCaptureInfo(stream, status, NULL); }
int cudaThreadExchangeStreamCaptureMode(int *mode) { return OK; }
int cudaStreamSynchronize(void *stream) { return OK; }
int cudaDeviceSynchronize(void) { return OK; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return OK; }

/* the driver's virtual memory calls */
int cuMemAddressReserve(u64 *p, size_t n, size_t align, u64 hint, u64 flags) {
  *p = RESERVE_BASE + reserved;
  reserved += round_up(n, GIB) + GIB;
  return OK;
}
int cuMemAddressFree(u64 p, size_t n) { return OK; }
int cuMemCreate(u64 *handle, size_t n, const void *properties, u64 flags) {
  if (used + n > total()) return OUT_OF_MEMORY;
  used += n;
  if (n_physical == physical_room)
    physical = realloc(physical, (physical_room = physical_room ? 2 * physical_room : 64) * sizeof *physical);
  physical[n_physical] = n;
  *handle = ++n_physical;
  return OK;
}
int cuMemRelease(u64 handle) { used -= physical[handle - 1]; return OK; }
int cuMemMap(u64 p, size_t n, size_t offset, u64 handle, u64 flags) { return OK; }
int cuMemUnmap(u64 p, size_t n) { return OK; }
int cuMemSetAccess(u64 p, size_t n, const void *access, size_t count) { return OK; }
int cuMemGetAllocationGranularity(size_t *granule, const void *properties, int option) { *granule = GRANULE; return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 0; return OK; }
int cuGetErrorString(int status, const char **text) { *text = "oracle: driver error"; return OK; }

static int unsupported(void) { return NOT_SUPPORTED; }
/* torch 2.6 wants to find these, and calls none of them */
#define UNUSED(f) int f(void) { return NOT_SUPPORTED; }
UNUSED(cuMemExportToShareableHandle) UNUSED(cuMemImportFromShareableHandle) UNUSED(cuMemsetD32Async)
UNUSED(cuStreamWriteValue32) UNUSED(cuMemRetainAllocationHandle) UNUSED(cuMemGetAllocationPropertiesFromHandle)
static const struct { const char *name; void *function; } entries[] = {
#define ENTRY(f) {#f, (void *)f}
  ENTRY(cuMemAddressReserve), ENTRY(cuMemAddressFree), ENTRY(cuMemCreate), ENTRY(cuMemRelease), ENTRY(cuMemMap),
  ENTRY(cuMemUnmap), ENTRY(cuMemSetAccess), ENTRY(cuMemGetAllocationGranularity), ENTRY(cuDeviceGetAttribute),
  ENTRY(cuGetErrorString)};

int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, u64 flags, int *status) {
  *function = (void *)unsupported;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
    if (!strcmp(entries[i].name, name)) *function = entries[i].function;
  if (status) *status = 0;
  return OK;
}
int cudaGetDriverEntryPoint(const char *name, void **function, u64 flags, int *status) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, status);
}
