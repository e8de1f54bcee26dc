/* The driver's virtual memory calls, which PyTorch's expandable segments use, and the look-up of entry points. */
#define _GNU_SOURCE
#include "clock.h"
#include "contents.h"
#include <dlfcn.h>

typedef struct { uint64_t handle, bytes; int references; } Physical;
typedef struct { uint64_t address, bytes, handle; } Mapping;

static Physical *physicals;
static Mapping *mappings;
static size_t n_physicals, physical_room, n_mappings, mapping_room;
static uint64_t next_handle = 1;

static void lock(void) { pthread_mutex_lock(&phantom_lock); }
static void unlock(void) { pthread_mutex_unlock(&phantom_lock); }

static Physical *physical(uint64_t handle) {
  for (size_t i = n_physicals; i-- > 0;)
    if (physicals[i].handle == handle) return physicals + i;
  return NULL;
}

static void unreference(Physical *p) {
  if (--p->references) return;
  phantom_refund(p->bytes);
  *p = physicals[--n_physicals];
}

Status cuMemGetAllocationGranularity(size_t *granule, UNUSED const void *prop, UNUSED int option) {
  *granule = GRANULE;
  return OK;
}

Status cuMemAddressReserve(uint64_t *p, size_t n, size_t align, UNUSED uint64_t hint, UNUSED uint64_t flags) {
  lock();
  *p = phantom_reserve(n, align > GRANULE ? align : GRANULE);
  unlock();
  LOG("cuMemAddressReserve(%zu) = %#lx\n", n, *p);
  return *p ? OK : OUT_OF_MEMORY;
}

Status cuMemAddressFree(uint64_t p, UNUSED size_t n) {
  lock();
  int known = phantom_drop_range(p, 1) != 0;
  unlock();
  return known ? OK : INVALID_VALUE;
}

Status cuMemCreate(uint64_t *handle, size_t n, UNUSED const void *prop, UNUSED uint64_t flags) {
  if (n % GRANULE) return INVALID_VALUE;
  lock();
  int fits = phantom_charge(n);
  if (fits) {
    if (n_physicals == physical_room) {
      physical_room = physical_room ? 2 * physical_room : 256;
      physicals = realloc(physicals, physical_room * sizeof *physicals);
      if (!physicals) abort();
    }
    *handle = next_handle++;
    physicals[n_physicals++] = (Physical){*handle, n, 1};
  }
  unlock();
  LOG("cuMemCreate(%zu)%s\n", n, fits ? "" : ": out of memory");
  if (fits) phantom_host(phantom_settings()->segment_alloc);
  return fits ? OK : OUT_OF_MEMORY;
}

Status cuMemRelease(uint64_t handle) {
  lock();
  Physical *p = physical(handle);
  if (p) unreference(p);
  unlock();
  return p ? OK : INVALID_VALUE;
}

Status cuMemMap(uint64_t address, size_t n, UNUSED size_t offset, uint64_t handle, UNUSED uint64_t flags) {
  lock();
  Physical *p = physical(handle);
  if (p) {
    p->references++;
    if (n_mappings == mapping_room) {
      mapping_room = mapping_room ? 2 * mapping_room : 256;
      mappings = realloc(mappings, mapping_room * sizeof *mappings);
      if (!mappings) abort();
    }
    mappings[n_mappings++] = (Mapping){address, n, handle};
  }
  unlock();
  LOG("cuMemMap(%#lx, %zu)\n", address, n);
  return p ? OK : INVALID_VALUE;
}

Status cuMemUnmap(uint64_t address, size_t n) {
  int found = 0;
  lock();
  for (size_t i = n_mappings; i-- > 0;) {
    Mapping m = mappings[i];
    if (m.address < address || m.address + m.bytes > address + n) continue;
    Physical *p = physical(m.handle);
    if (p) unreference(p);
    mappings[i] = mappings[--n_mappings];
    found = 1;
  }
  phantom_clear((void *)address, n);
  unlock();
  LOG("cuMemUnmap(%#lx, %zu)\n", address, n);
  phantom_host(phantom_settings()->segment_free);
  return found ? OK : INVALID_VALUE;
}

Status cuMemSetAccess(UNUSED uint64_t p, UNUSED size_t n, UNUSED const void *access, UNUSED size_t count) { return OK; }

Status cuMemRetainAllocationHandle(uint64_t *handle, void *address) {
  Status status = INVALID_VALUE;
  lock();
  for (size_t i = 0; i < n_mappings; i++) {
    Mapping m = mappings[i];
    if ((uint64_t)address < m.address || (uint64_t)address >= m.address + m.bytes) continue;
    Physical *p = physical(m.handle);
    if (!p) continue;
    p->references++;
    *handle = p->handle;
    status = OK;
    break;
  }
  unlock();
  return status;
}

Status cuMemGetAllocationPropertiesFromHandle(void *out, UNUSED uint64_t handle) { memset(out, 0, 32); return OK; }
Status cuMemExportToShareableHandle(UNUSED void *out, UNUSED uint64_t h, UNUSED int type, UNUSED uint64_t flags) {
  return NOT_SUPPORTED;
}
Status cuMemImportFromShareableHandle(UNUSED uint64_t *h, UNUSED void *handle, UNUSED int type) {
  return NOT_SUPPORTED;
}

Status cuMemGetAddressRange_v2(uint64_t *base, size_t *n, uint64_t address) {
  lock();
  int known = phantom_find_range(address, base, n);
  unlock();
  return known ? OK : INVALID_VALUE;
}
Status cuMemGetAddressRange(uint64_t *base, size_t *n, uint64_t address) {
  return cuMemGetAddressRange_v2(base, n, address);
}

Status cuMemsetD32Async(uint64_t address, unsigned value, size_t n, UNUSED void *stream) {
  phantom_clear((void *)address, 4 * n);
  if (!value || 4 * n > phantom_settings()->copy_limit) return OK;
  for (size_t i = 0; i < n; i++) ((unsigned *)address)[i] = value;
  phantom_wrote((void *)address, 4 * n);
  return OK;
}

Status cuStreamWriteValue32(UNUSED void *stream, uint64_t address, unsigned value, UNUSED unsigned flags) {
  if (!phantom_on_device((void *)address)) return OK;
  *(unsigned *)address = value;
  phantom_wrote((void *)address, sizeof value);
  return OK;
}

/* --- contexts: there is one, and it is current --- */

#define CONTEXT ((void *)0x10)
Status cuInit(UNUSED unsigned flags) { return OK; }
Status cuDriverGetVersion(int *version) { *version = 13000; return OK; }
Status cuDeviceGetCount(int *n) { *n = phantom_settings()->devices; return OK; }
Status cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal < phantom_settings()->devices ? OK : INVALID_DEVICE;
}
Status cuDevicePrimaryCtxGetState(UNUSED int device, unsigned *flags, int *active) {
  *flags = 0;
  *active = 1;
  return OK;
}
Status cuDevicePrimaryCtxRetain(void **context, UNUSED int device) { *context = CONTEXT; return OK; }
Status cuCtxGetCurrent(void **context) { *context = CONTEXT; return OK; }
Status cuCtxSetCurrent(UNUSED void *context) { return OK; }
Status cuCtxPushCurrent(UNUSED void *context) { return OK; }
Status cuCtxPushCurrent_v2(UNUSED void *context) { return OK; }
Status cuCtxPopCurrent_v2(void **context) { if (context) *context = CONTEXT; return OK; }
Status cuCtxPopCurrent(void **context) { if (context) *context = CONTEXT; return OK; }
Status cuGetErrorString(int status, const char **text) {
  *text = status == OUT_OF_MEMORY ? "out of memory" : status ? "phantom GPU: not supported" : "no error";
  return OK;
}
Status cuGetErrorName(int status, const char **text) {
  *text = status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : status ? "CUDA_ERROR_NOT_SUPPORTED" : "CUDA_SUCCESS";
  return OK;
}
Status cuStreamCreate(void **stream, UNUSED unsigned flags) { *stream = phantom_handle(); return OK; }
Status cuLogsRegisterCallback(UNUSED void *callback, UNUSED void *data, void **handle) {
  if (handle) *handle = phantom_handle();
  return OK;
}
Status cuLogsUnregisterCallback(UNUSED void *handle) { return OK; }

/* --- entry points: ours if we have the function, else one that says "not supported" --- */

static Status unsupported(void) { return NOT_SUPPORTED; }

Status cudaGetDriverEntryPointByVersion(const char *symbol, void **function, UNUSED unsigned version,
                                        UNUSED uint64_t flags, int *status) {
  Dl_info here;
  void *self = dladdr((void *)unsupported, &here) ? dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
  void *found = self ? dlsym(self, symbol) : NULL;
  LOG("entry point %s%s\n", symbol, found ? "" : ": not supported");
  *function = found ? found : (void *)unsupported;
  if (status) *status = 0;
  return OK;
}
Status cudaGetDriverEntryPoint(const char *symbol, void **function, uint64_t flags, int *status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 0, flags, status);
}
Status cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, (unsigned)version, flags, status);
}
