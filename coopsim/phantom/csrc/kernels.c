/* Kernels: registered, asked about, launched, never run. */
#include "clock.h"

typedef struct { unsigned x, y, z; } Dim3;
enum { NESTED_LAUNCHES = 16 };
static __thread struct { Dim3 grid, block; size_t shared; void *stream; } pushed[NESTED_LAUNCHES];
static __thread int depth;

/* --- which architectures the program has machine code for ---
 * A program's code is a list of images, one for each architecture. CUB asks which of them a kernel comes from, and
 * refuses one that it was not compiled for, so the answer must be from the list: an 8.9 card runs code for 8.6. */

typedef struct { uint32_t magic, version; const char *data; } Binary;                   /* __fatBinC_Wrapper_t */
typedef struct { uint32_t magic; uint16_t version, header_bytes; uint64_t bytes; } Images;
typedef struct {
  uint16_t kind, attributes;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes, reserved;
  uint16_t minor, major;
  uint32_t architecture;
} Image;
enum { BINARY_MAGIC = 0x466243b1, MACHINE_CODE = 2, ARCHITECTURES = 256 };
static const uint32_t IMAGES_MAGIC = 0xba55ed50;

static const Binary **binaries;
static size_t n_binaries, binary_room;

void **__cudaRegisterFatBinary(void *binary) {
  static void *registered[1];
  pthread_mutex_lock(&phantom_lock);
  if (n_binaries == binary_room) {
    binary_room = binary_room ? 2 * binary_room : 1024;
    binaries = realloc(binaries, binary_room * sizeof *binaries);
    if (!binaries) abort();
  }
  binaries[n_binaries++] = binary;
  pthread_mutex_unlock(&phantom_lock);
  return registered;
}

static void note_architectures(const Binary *binary, size_t *have) {
  if (binary->magic != BINARY_MAGIC) return;
  const Images *images = (const Images *)binary->data;
  if (images->magic != IMAGES_MAGIC) return;
  const char *at = binary->data + images->header_bytes, *end = at + images->bytes;
  while (at + sizeof(Image) <= end) {
    const Image *image = (const Image *)at;
    if (!image->header_bytes) return;
    if (image->kind == MACHINE_CODE && image->architecture < ARCHITECTURES) have[image->architecture]++;
    at += image->header_bytes + image->bytes;
  }
}

/* The newest code that this card runs (of its major version, not later than it); the card's own if there is none. */
static int architecture(void) {
  static int found;
  if (found) return found;
  size_t have[ARCHITECTURES] = {0};
  pthread_mutex_lock(&phantom_lock);
  for (size_t i = 0; i < n_binaries; i++) note_architectures(binaries[i], have);
  pthread_mutex_unlock(&phantom_lock);
  for (int i = 0; i < ARCHITECTURES; i++)
    if (2 * have[i] < n_binaries) have[i] = 0;  /* a few files are for one architecture only, and most are not */
  const Settings *s = phantom_settings();
  int own = 10 * s->major + s->minor, best = own;
  while (best >= 10 * s->major && !have[best]) best--;
  if (best < 10 * s->major)  /* a card that this torch no longer serves: take the oldest code that there is */
    for (best = own; best < ARCHITECTURES - 1 && !have[best];) best++;
  return found = have[best] ? best : own;
}

void __cudaRegisterFatBinaryEnd(UNUSED void **binary) {}
void __cudaUnregisterFatBinary(UNUSED void **binary) {}
char __cudaInitModule(UNUSED void **binary) { return 1; }

/* torch.cuda._sleep's kernel, by its mangled name; its one argument is a number of cycles. */
static const void *sleeping;

void __cudaRegisterFunction(UNUSED void **binary, const void *function, UNUSED char *on_device, const char *name) {
  if (strstr(name, "spin_kernelEl")) sleeping = function;
}
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

Status __cudaGetKernel(const void **kernel, const void *function) { *kernel = function; return OK; }
typedef struct { Dim3 grid, block; size_t shared; void *stream; } LaunchConfig;  /* cudaLaunchConfig_t, its beginning */
Status cudaLaunchKernel(const void *kernel, UNUSED Dim3 grid, UNUSED Dim3 block, void **arguments,
                        UNUSED size_t shared, void *stream) {
  if (kernel && kernel == sleeping)
    phantom_known_work(stream, *(const uint64_t *)arguments[0] * 1000000 / (uint64_t)phantom_settings()->clock);
  else phantom_launch(stream);
  return OK;
}
Status __cudaLaunchKernel(const void *kernel, Dim3 grid, Dim3 block, void **arguments, size_t shared, void *stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
Status cudaLaunchCooperativeKernel(const void *kernel, Dim3 grid, Dim3 block, void **arguments, size_t shared,
                                   void *stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
Status cudaLaunchKernelExC(const LaunchConfig *config) { phantom_launch(config->stream); return OK; }

/* What a real kernel's answer would depend on (registers, shared memory) is in machine code that nothing reads here:
 * 32 registers, and 2 resident blocks, are assumptions. They decide grids, and so sizes of some temporaries. */
Status cudaFuncGetAttributes(void *out, UNUSED const void *function) {
  struct { size_t shared, constant, local; int max_threads, registers, ptx, binary; } a = {0, 0, 0, 1024, 32, 0, 0};
  a.ptx = a.binary = architecture();
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
