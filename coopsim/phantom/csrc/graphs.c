/* CUDA graphs: a graph holds nothing, and its launch takes the time of one kernel (captures are in captures.c). */
#include "clock.h"

Status cudaGraphCreate(void **graph, UNUSED unsigned flags) { *graph = phantom_handle(); return OK; }
Status cudaGraphInstantiate(void **graph) { *graph = phantom_handle(); return OK; }
Status cudaGraphInstantiateWithFlags(void **graph) { *graph = phantom_handle(); return OK; }
Status cudaGraphLaunch(UNUSED void *graph, void *stream) { phantom_launch(stream); return OK; }
Status cudaGraphUpload(void) { return OK; }
Status cudaGraphDestroy(UNUSED void *graph) { return OK; }
Status cudaGraphExecDestroy(UNUSED void *graph) { return OK; }
Status cudaGraphRetainUserObject(void) { return OK; }

/* One node, as PyTorch warns of a graph without. */
Status cudaGraphGetNodes(UNUSED void *graph, void **nodes, size_t *n) {
  if (nodes && *n) nodes[0] = phantom_handle();
  *n = 1;
  return OK;
}
Status cudaGraphNodeGetDependencies(UNUSED void *node, UNUSED void **nodes, UNUSED void **edges, size_t *n) {
  if (n) *n = 0;
  return OK;
}
Status cudaGraphAddNode(void) { return phantom_fail(NOT_SUPPORTED); }
Status cudaGraphConditionalHandleCreate(void) { return phantom_fail(NOT_SUPPORTED); }
