/* Kernels: registered, asked about, launched, never run. */
#include "phantom.h"

typedef struct { unsigned x, y, z; } Dim3;
enum { NESTED_LAUNCHES = 16 };
static __thread struct { Dim3 grid, block; size_t shared; void *stream; } pushed[NESTED_LAUNCHES];
static __thread int depth;

void **__cudaRegisterFatBinary(UNUSED void *binary) {
  static void *registered[1];
  return registered;
}
void __cudaRegisterFatBinaryEnd(UNUSED void **binary) {}
void __cudaUnregisterFatBinary(UNUSED void **binary) {}
char __cudaInitModule(UNUSED void **binary) { return 1; }
void __cudaRegisterFunction(void) {}
void __cudaRegisterVar(void) {}

unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void *stream) {
  if (depth < NESTED_LAUNCHES) {
    pushed[depth].grid = grid;
    pushed[depth].block = block;
    pushed[depth].shared = shared;
    pushed[depth].stream = stream;
    depth++;
  }
  return OK;
}
Status __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, void **stream) {
  if (!depth) return OK;
  depth--;
  *grid = pushed[depth].grid;
  *block = pushed[depth].block;
  *shared = pushed[depth].shared;
  *stream = pushed[depth].stream;
  return OK;
}

static Status launch(void) { phantom_count_launch(); return OK; }
Status __cudaGetKernel(const void **kernel, const void *function) { *kernel = function; return OK; }
Status __cudaLaunchKernel(void) { return launch(); }
Status cudaLaunchKernel(void) { return launch(); }
Status cudaLaunchCooperativeKernel(void) { return launch(); }
Status cudaLaunchKernelExC(void) { return launch(); }

/* What a real kernel's answer would depend on (registers, shared memory) is in machine code that nothing reads here:
 * 32 registers, and 2 resident blocks, are round figures. They decide grids, and so sizes of some temporaries. */
Status cudaFuncGetAttributes(void *out, UNUSED const void *function) {
  struct { size_t shared, constant, local; int max_threads, registers, ptx, binary; } a = {0, 0, 0, 1024, 32, 0, 0};
  const Settings *s = phantom_settings();
  a.ptx = a.binary = 10 * s->major + s->minor;
  memcpy(out, &a, sizeof a);
  return OK;
}
Status cudaFuncSetAttribute(UNUSED const void *function, UNUSED int attribute, UNUSED int value) { return OK; }
Status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, UNUSED const void *function, UNUSED int threads,
                                                     UNUSED size_t shared) {
  *blocks = 2;
  return OK;
}
Status cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int threads,
                                                              size_t shared, UNUSED unsigned flags) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

Status cudaGetSymbolAddress(const void **p, const void *symbol) { *p = symbol; return OK; }
Status cudaMemcpyToSymbol(void) { return OK; }
Status cudaLibraryLoadData(void **library) { *library = phantom_handle(); return OK; }
Status cudaLibraryGetKernel(void **kernel) { *kernel = phantom_handle(); return OK; }
Status cudaLibraryUnload(UNUSED void *library) { return OK; }
Status cudaKernelSetAttributeForDevice(void) { return OK; }
