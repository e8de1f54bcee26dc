/* What every file uses: the last error of a thread, and fresh handles. */
#include "phantom.h"

static __thread int last_status;

Status phantom_fail(Status status) {
  if (status) last_status = status;
  return status;
}
Status cudaGetLastError(void) { Status s = last_status; last_status = OK; return s; }
Status cudaPeekAtLastError(void) { return last_status; }

void *phantom_handle(void) {
  static uintptr_t last = 0x1000;
  return (void *)__atomic_add_fetch(&last, 0x10, __ATOMIC_RELAXED);
}
