/* The devices, all alike: their properties and attributes. */
#include "clock.h"
#include "properties.h"

enum { SHARED_PER_BLOCK = 49152, REGISTERS = 65536, CONSTANT_BYTES = 65536, GRID_YZ = 65535, MEMORY_BUS = 256 };
static const int MAX_GRID_X = 0x7fffffff;

/* Resident blocks of one multiprocessor (the CUDA C++ Programming Guide's table of compute capabilities). */
static int blocks_per_sm(const Settings *s) {
  switch (10 * s->major + s->minor) {
    case 75: case 86: case 87: return 16;
    case 89: case 110: case 120: case 121: return 24;
    default: return 32;
  }
}

static int known(int device) { return device >= 0 && device < phantom_settings()->devices; }

/* Both layouts name their fields alike, so one list fills both. */
#define FILL(p, s)                                                                                                   \
  memset(p, 0, sizeof *(p));                                                                                         \
  snprintf((p)->name, sizeof (p)->name, "%s", (s)->name);                                                            \
  (p)->total_global_mem = (s)->total;                                                                                \
  (p)->shared_per_block = SHARED_PER_BLOCK;                                                                          \
  (p)->regs_per_block = REGISTERS;                                                                                   \
  (p)->warp_size = 32;                                                                                               \
  (p)->mem_pitch = (size_t)MAX_GRID_X;                                                                               \
  (p)->max_threads_per_block = 1024;                                                                                 \
  (p)->max_threads_dim[0] = (p)->max_threads_dim[1] = 1024;                                                          \
  (p)->max_threads_dim[2] = 64;                                                                                      \
  (p)->max_grid_size[0] = MAX_GRID_X;                                                                                \
  (p)->max_grid_size[1] = (p)->max_grid_size[2] = GRID_YZ;                                                           \
  (p)->total_const_mem = CONSTANT_BYTES;                                                                             \
  (p)->major = (s)->major;                                                                                           \
  (p)->minor = (s)->minor;                                                                                           \
  (p)->texture_alignment = (p)->surface_alignment = 512;                                                             \
  (p)->texture_pitch_alignment = 32;                                                                                 \
  (p)->multi_processor_count = (s)->sms;                                                                             \
  (p)->can_map_host_memory = 1;                                                                                      \
  (p)->concurrent_kernels = 1;                                                                                       \
  (p)->async_engine_count = 3;                                                                                       \
  (p)->unified_addressing = 1;                                                                                       \
  (p)->l2_cache_size = (s)->l2;                                                                                      \
  (p)->max_threads_per_sm = (s)->threads_per_sm;                                                                     \
  (p)->stream_priorities = (p)->global_l1 = (p)->local_l1 = 1;                                                       \
  (p)->shared_per_sm = (s)->shared_per_sm;                                                                           \
  (p)->regs_per_sm = REGISTERS;                                                                                      \
  (p)->managed_memory = (p)->concurrent_managed = 1;                                                                 \
  (p)->cooperative_launch = 1;                                                                                       \
  (p)->shared_optin = (s)->shared_optin;                                                                             \
  (p)->max_blocks_per_sm = blocks_per_sm(s);                                                                         \
  (p)->reserved_shared_per_block = 1024;

Status cudaGetDeviceProperties(void *out, int device) {  /* CUDA 13's only name; torch for CUDA 12 calls _v2 */
  if (!known(device)) return phantom_fail(INVALID_DEVICE);
  Properties13 *p = out;
  const Settings *s = phantom_settings();
  FILL(p, s)
  return OK;
}

Status cudaGetDeviceProperties_v2(void *out, int device) {
  if (!known(device)) return phantom_fail(INVALID_DEVICE);
  Properties12 *p = out;
  const Settings *s = phantom_settings();
  FILL(p, s)
  p->device_overlap = 1;
  return OK;
}

Status cudaDeviceGetAttribute(int *value, int attribute, UNUSED int device) {
  const Settings *s = phantom_settings();
  switch (attribute) {  /* numbers of enum cudaDeviceAttr */
    case 1: case 2: case 3: *value = 1024; break;  /* threads per block, block dimensions x and y */
    case 4: *value = 64; break;
    case 5: *value = MAX_GRID_X; break;
    case 6: case 7: *value = GRID_YZ; break;
    case 8: *value = SHARED_PER_BLOCK; break;
    case 9: *value = CONSTANT_BYTES; break;
    case 10: *value = 32; break;                   /* warp size */
    case 12: case 82: *value = REGISTERS; break;   /* registers per block, per multiprocessor */
    case 13: *value = s->clock; break;
    case 16: *value = s->sms; break;
    case 36: *value = s->memory_clock; break;
    case 37: *value = MEMORY_BUS; break;
    case 38: *value = s->l2; break;
    case 39: *value = s->threads_per_sm; break;
    case 41: *value = 1; break;                    /* unified addressing */
    case 75: *value = s->major; break;
    case 76: *value = s->minor; break;
    case 81: *value = (int)s->shared_per_sm; break;
    case 83: case 89: *value = 1; break;           /* managed memory, which host and card use at once */
    case 95: *value = 1; break;                    /* cooperative launch */
    case 97: *value = (int)s->shared_optin; break;
    case 102: *value = 1; break;                   /* virtual memory management */
    case 106: *value = blocks_per_sm(s); break;
    default: *value = 0;
  }
  return OK;
}
Status cuDeviceGetAttribute(int *value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, attribute, device);
}

#ifndef CUDA_VERSION_NUMBER
#define CUDA_VERSION_NUMBER 13000
#endif
Status cudaDriverGetVersion(int *version) { *version = CUDA_VERSION_NUMBER; return OK; }
Status cudaRuntimeGetVersion(int *version) { *version = CUDA_VERSION_NUMBER; return OK; }
static __thread int current;
Status cudaGetDeviceCount(int *n) { *n = phantom_settings()->devices; return OK; }
Status cudaGetDevice(int *device) { *device = current; return OK; }
Status cudaSetDevice(int device) {
  if (!known(device)) return phantom_fail(INVALID_DEVICE);
  current = device;
  return OK;
}
Status cudaDeviceGetPCIBusId(char *text, int n, UNUSED int device) {
  snprintf(text, (size_t)n, "0000:00:00.0");
  return OK;
}
Status cudaDeviceSynchronize(void) {
  phantom_device_wait();
  LOG("cudaDeviceSynchronize()\n");
  return OK;
}
Status cudaDeviceCanAccessPeer(int *can, UNUSED int a, UNUSED int b) { *can = 0; return OK; }
Status cudaDeviceEnablePeerAccess(UNUSED int device, UNUSED unsigned flags) { return OK; }
Status cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return OK;
}

const char *cudaGetErrorString(int status) {
  switch (status) {
    case OK: return "no error";
    case OUT_OF_MEMORY: return "out of memory";
    case INVALID_DEVICE: return "invalid device ordinal (the phantom GPU is one device)";
    case NOT_SUPPORTED: return "operation not supported by the phantom GPU";
    case CAPTURE_UNSUPPORTED: return "operation not permitted when stream is capturing";
    case CAPTURE_INVALIDATED: return "operation failed due to a previous error during capture";
    case CAPTURED_EVENT: return "operation not permitted on an event last recorded in a capturing stream";
    default: return "invalid argument to the phantom GPU";
  }
}
const char *cudaGetErrorName(int status) {
  switch (status) {
    case OK: return "cudaSuccess";
    case OUT_OF_MEMORY: return "cudaErrorMemoryAllocation";
    case INVALID_DEVICE: return "cudaErrorInvalidDevice";
    case NOT_SUPPORTED: return "cudaErrorNotSupported";
    case ILLEGAL_STATE: return "cudaErrorIllegalState";
    case CAPTURE_UNSUPPORTED: return "cudaErrorStreamCaptureUnsupported";
    case CAPTURE_INVALIDATED: return "cudaErrorStreamCaptureInvalidated";
    case CAPTURED_EVENT: return "cudaErrorCapturedEvent";
    default: return "cudaErrorInvalidValue";
  }
}
