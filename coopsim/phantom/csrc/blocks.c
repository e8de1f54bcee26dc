// Blocks that PyTorch's allocator hands out.
//
// It reports each to c10's profiler hook. That call is taken here, told to the runtime (copies.c), and passed on. This
// is part of the library that is loaded before all others, as only such a library can take another's calls.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

static void (*told)(void *block, size_t n);
void coopsim_on_block(void (*tell)(void *block, size_t n)) { told = tell; }

// c10::reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, c10::Device). A Device is two bytes.
#define REPORT _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
typedef void (*Report)(void *, int64_t, size_t, size_t, uint16_t);

static Report theirs(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found) return (Report)found;
  void *library = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);  // Python loads it where RTLD_NEXT does not look
  return library ? (Report)dlsym(library, name) : NULL;
}

void REPORT(void *block, int64_t n, size_t allocated, size_t reserved, uint16_t device) {
  static Report next;
  if (n > 0 && told) told(block, (size_t)n);
  if (!next) next = theirs("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
  if (next) next(block, n, allocated, reserved, device);
}
