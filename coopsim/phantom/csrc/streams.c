/* Streams and events, all of them complete at once; graphs and inter-process handles, which are not supported. */
#include "phantom.h"

void *phantom_handle(void) {
  static uintptr_t last = 0x1000;
  return (void *)__atomic_add_fetch(&last, 0x10, __ATOMIC_RELAXED);
}

Status cudaStreamCreate(void **s) { *s = phantom_handle(); return OK; }
Status cudaStreamCreateWithFlags(void **s, UNUSED unsigned flags) { return cudaStreamCreate(s); }
Status cudaStreamCreateWithPriority(void **s, UNUSED unsigned flags, UNUSED int priority) { return cudaStreamCreate(s); }
Status cudaStreamDestroy(UNUSED void *s) { return OK; }
Status cudaStreamSynchronize(UNUSED void *s) { return OK; }
Status cudaStreamQuery(UNUSED void *s) { return OK; }
Status cudaStreamWaitEvent(UNUSED void *s, UNUSED void *event, UNUSED unsigned flags) { return OK; }
Status cudaStreamGetPriority(UNUSED void *s, int *priority) { *priority = 0; return OK; }
Status cudaStreamIsCapturing(UNUSED void *s, int *status) { *status = 0; return OK; }
Status cudaStreamGetCaptureInfo(UNUSED void *s, int *status, uint64_t *id, void **graph, void **nodes, void **edges,
                                size_t *n) {
  if (status) *status = 0;
  if (id) *id = 0;
  if (graph) *graph = NULL;
  if (nodes) *nodes = NULL;
  if (edges) *edges = NULL;
  if (n) *n = 0;
  return OK;
}
/* CUDA 12's name; it has no argument for edges */
Status cudaStreamGetCaptureInfo_v2(void *s, int *status, uint64_t *id, void **graph, void **nodes, size_t *n) {
  return cudaStreamGetCaptureInfo(s, status, id, graph, nodes, NULL, n);
}
Status cudaThreadExchangeStreamCaptureMode(int *mode) { *mode = 0; return OK; }
Status cudaLaunchHostFunc(UNUSED void *s, void (*function)(void *), void *data) { function(data); return OK; }
Status cudaStreamAddCallback(void *s, void (*callback)(void *, int, void *), void *data, UNUSED unsigned flags) {
  callback(s, OK, data);
  return OK;
}

Status cudaEventCreate(void **e) { *e = phantom_handle(); return OK; }
Status cudaEventCreateWithFlags(void **e, UNUSED unsigned flags) { return cudaEventCreate(e); }
Status cudaEventDestroy(UNUSED void *e) { return OK; }
Status cudaEventRecord(UNUSED void *e, UNUSED void *s) { return OK; }
Status cudaEventRecordWithFlags(UNUSED void *e, UNUSED void *s, UNUSED unsigned flags) { return OK; }
Status cudaEventQuery(UNUSED void *e) { return OK; }
Status cudaEventSynchronize(UNUSED void *e) { return OK; }
Status cudaEventElapsedTime(float *ms, UNUSED void *a, UNUSED void *b) { *ms = 0.001f; return OK; }

/* --- graphs --- */

#define REFUSED(name) Status name(void) { return phantom_fail(NOT_SUPPORTED); }
REFUSED(cudaStreamBeginCapture)
REFUSED(cudaStreamBeginCaptureToGraph)
REFUSED(cudaStreamUpdateCaptureDependencies)
REFUSED(cudaGraphInstantiateWithFlags)
REFUSED(cudaGraphLaunch)
REFUSED(cudaGraphNodeGetDependencies)
REFUSED(cudaGraphGetNodes)
REFUSED(cudaGraphAddNode)
REFUSED(cudaGraphConditionalHandleCreate)
REFUSED(cudaGraphRetainUserObject)
Status cudaStreamEndCapture(UNUSED void *s, void **graph) { *graph = NULL; return phantom_fail(NOT_SUPPORTED); }
Status cudaGraphDestroy(UNUSED void *graph) { return OK; }
Status cudaGraphExecDestroy(UNUSED void *graph) { return OK; }
Status cudaUserObjectCreate(void **o, UNUSED void *p, UNUSED void (*destroy)(void *), UNUSED unsigned references,
                            UNUSED unsigned flags) {
  *o = phantom_handle();
  return OK;
}
Status cudaUserObjectRelease(UNUSED void *o, UNUSED unsigned count) { return OK; }

/* --- memory pools (the cudaMallocAsync back end asks) and other processes --- */

Status cudaDeviceGetDefaultMemPool(void **pool, UNUSED int device) { *pool = phantom_handle(); return OK; }
Status cudaMemPoolGetAttribute(UNUSED void *pool, UNUSED int attribute, uint64_t *value) { *value = 0; return OK; }
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
REFUSED(cudaIpcOpenMemHandle)
REFUSED(cudaIpcOpenEventHandle)
Status cudaIpcCloseMemHandle(UNUSED void *p) { return OK; }
Status cudaProfilerStart(void) { return OK; }
Status cudaProfilerStop(void) { return OK; }
