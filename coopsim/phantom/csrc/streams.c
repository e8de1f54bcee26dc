/* Streams (clock.c has their time); inter-process handles, which are not supported. */
#include "clock.h"

Status cudaStreamCreate(void **s) { *s = phantom_handle(); return OK; }
Status cudaStreamCreateWithFlags(void **s, UNUSED unsigned flags) { return cudaStreamCreate(s); }
Status cudaStreamCreateWithPriority(void **s, UNUSED unsigned flags, UNUSED int priority) { return cudaStreamCreate(s); }
Status cudaStreamDestroy(UNUSED void *s) { return OK; }
Status cudaStreamSynchronize(void *s) {
  Status status = phantom_wait(s);
  if (status == OK) phantom_host_until(phantom_stream_end(s));
  LOG("cudaStreamSynchronize(%p)\n", s);
  return status;
}
Status cudaStreamQuery(void *s) {
  Status status = phantom_wait(s);
  if (status == OK) status = phantom_ask(s, phantom_stream_end(s), __builtin_return_address(0));
  LOG("cudaStreamQuery(%p)%s\n", s, status == OK ? "" : ": not ready");
  return status;
}
Status cudaStreamGetFlags(UNUSED void *s, unsigned *flags) { *flags = 0; return OK; }
Status cudaStreamGetId(void *s, uint64_t *id) { *id = (uint64_t)(uintptr_t)s; return OK; }
Status cudaStreamGetPriority(UNUSED void *s, int *priority) { *priority = 0; return OK; }
Status cudaLaunchHostFunc(UNUSED void *s, void (*function)(void *), void *data) { function(data); return OK; }
Status cudaStreamAddCallback(void *s, void (*callback)(void *, int, void *), void *data, UNUSED unsigned flags) {
  callback(s, OK, data);
  return OK;
}

Status cudaUserObjectCreate(void **o, UNUSED void *p, UNUSED void (*destroy)(void *), UNUSED unsigned references,
                            UNUSED unsigned flags) {
  *o = phantom_handle();
  return OK;
}
Status cudaUserObjectRelease(UNUSED void *o, UNUSED unsigned count) { return OK; }

/* --- memory pools (the cudaMallocAsync back end asks) and other processes --- */

Status cudaDeviceGetDefaultMemPool(void **pool, UNUSED int device) { *pool = phantom_handle(); return OK; }
Status cudaMemPoolGetAttribute(UNUSED void *pool, int attribute, void *value) {
  enum { LAST_OF_INTS = 3 };  /* those that say what may be used again */
  memset(value, 0, attribute <= LAST_OF_INTS ? sizeof(int) : sizeof(uint64_t));
  return OK;
}
Status cudaMemPoolCreate(void **pool, UNUSED const void *properties) { *pool = phantom_handle(); return OK; }
Status cudaDeviceGetMemPool(void **pool, UNUSED int device) { *pool = phantom_handle(); return OK; }
Status cudaMemPoolSetAttribute(UNUSED void *pool, UNUSED int attribute, UNUSED void *value) { return OK; }
Status cudaMemPoolSetAccess(UNUSED void *pool, UNUSED const void *access, UNUSED size_t n) { return OK; }
Status cudaMemPoolTrimTo(UNUSED void *pool, UNUSED size_t n) { return OK; }
Status cudaDeviceGetGraphMemAttribute(UNUSED int device, UNUSED int attribute, uint64_t *value) { *value = 0; return OK; }
Status cudaDeviceSetGraphMemAttribute(UNUSED int device, UNUSED int attribute, UNUSED void *value) { return OK; }
Status cudaIpcGetMemHandle(void *handle, void *p) {
  memset(handle, 0, 64);
  memcpy(handle, &p, sizeof p);
  return OK;
}
Status cudaIpcGetEventHandle(void *handle, void *event) { return cudaIpcGetMemHandle(handle, event); }
Status cudaIpcOpenMemHandle(void) { return phantom_fail(NOT_SUPPORTED); }
Status cudaIpcOpenEventHandle(void) { return phantom_fail(NOT_SUPPORTED); }
Status cudaIpcCloseMemHandle(UNUSED void *p) { return OK; }
Status cudaProfilerStart(void) { return OK; }
Status cudaProfilerStop(void) { return OK; }
