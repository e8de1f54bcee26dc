/* The driver's modules, functions and launches: what Triton's kernels (torch.compile) and nvrtc's come through.
 *
 * Nothing of a module's machine code is kept. Every function has the same made-up registers and spills nothing, so that
 * Inductor's autotuning drops no configuration. */
#include "clock.h"
#include "host.h"

enum { MAX_THREADS = 0, REGISTERS = 4 };               /* enum CUfunction_attribute */
enum { POINTER_MEMORY_TYPE = 2, POINTER_DEVICE = 3 };  /* enum CUpointer_attribute */
enum { ON_DEVICE = 2 };                                /* enum CUmemorytype */

static Status handle(void **out) { *out = phantom_handle(); return OK; }

Status cuModuleLoad(void **module) { return handle(module); }
Status cuModuleLoadData(void **module) { return handle(module); }
Status cuModuleLoadDataEx(void **module) { return handle(module); }
Status cuModuleLoadFatBinary(void **module) { return handle(module); }
Status cuModuleUnload(UNUSED void *module) { return OK; }
Status cuModuleGetFunction(void **function) { return handle(function); }
Status cuModuleGetGlobal_v2(void) { return NOT_SUPPORTED; }
Status cuLibraryLoadData(void **library) { return handle(library); }
Status cuLibraryUnload(UNUSED void *library) { return OK; }
Status cuLibraryGetKernel(void **kernel) { return handle(kernel); }
Status cuLibraryGetModule(void **module) { return handle(module); }
Status cuKernelGetFunction(void **function) { return handle(function); }

Status cuFuncGetAttribute(int *value, int attribute, UNUSED void *function) {
  switch (attribute) {
    case MAX_THREADS: *value = 1024; break;
    case REGISTERS: *value = 32; break;
    default: *value = 0;  /* static shared and local (spilled) bytes among them */
  }
  return OK;
}
Status cuFuncSetAttribute(void) { return OK; }
Status cuFuncSetCacheConfig(void) { return OK; }
Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks) { *blocks = 2; return OK; }
Status cuOccupancyMaxActiveClusters(int *clusters) { *clusters = phantom_settings()->sms; return OK; }

typedef struct { unsigned grid[3], block[3], shared; void *stream; } LaunchConfig;  /* CUlaunchConfig, its beginning */
Status cuLaunchKernel(UNUSED void *function, UNUSED unsigned gx, UNUSED unsigned gy, UNUSED unsigned gz,
                      UNUSED unsigned bx, UNUSED unsigned by, UNUSED unsigned bz, UNUSED unsigned shared,
                      void *stream) {
  phantom_launch(stream);
  return OK;
}
Status cuLaunchKernelEx(const LaunchConfig *config) { phantom_launch(config->stream); return OK; }
Status cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, void *stream) {
  return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream);
}
enum { TENSOR_MAP = 128 };  /* sizeof(CUtensorMap) */
Status cuTensorMapEncodeTiled(void *map) { memset(map, 0, TENSOR_MAP); return OK; }
Status cuTensorMapEncodeIm2col(void *map) { memset(map, 0, TENSOR_MAP); return OK; }

/* Triton's launcher asks for the device's address of each pointer that it is given. */
Status cuPointerGetAttribute(void *out, int attribute, uint64_t address) {
  const void *p = (const void *)address;
  if (attribute == POINTER_DEVICE) {
    if (!phantom_on_device(p) && !phantom_is_pinned(p) && !phantom_is_managed(p)) return INVALID_VALUE;
    *(uint64_t *)out = address;
  } else {
    *(int *)out = attribute == POINTER_MEMORY_TYPE && phantom_on_device(p) ? ON_DEVICE : 0;
  }
  return OK;
}

Status cuCtxGetDevice(int *device) { *device = 0; return OK; }
Status cuCtxGetLimit(size_t *value, UNUSED int limit) { *value = 1 << 20; return OK; }
Status cuCtxSetLimit(UNUSED int limit, UNUSED size_t value) { return OK; }
Status cuCtxSynchronize(void) { phantom_device_wait(); return OK; }
