/* cuDNN: its version, and convolutions by its older interface. Graphs are in cudnn_backend.c, RNNs in cudnn_rnn.c. */
#include "answers.h"

#ifndef CUDNN_VERSION_NUMBER  /* build.py passes the version that this torch was built for */
#define CUDNN_VERSION_NUMBER 92400
#endif

int cudnnCreate(void **handle) { coopsim_phantom_loaded(CUDNN); return new_handle(handle); }
size_t cudnnGetVersion(void) { return CUDNN_VERSION_NUMBER; }
size_t cudnnGetCudartVersion(void) { return 13000; }
int cudnnGetProperty(int which, int *value) {
  const int parts[] = {CUDNN_VERSION_NUMBER / 10000, CUDNN_VERSION_NUMBER / 100 % 100, CUDNN_VERSION_NUMBER % 100};
  *value = which >= 0 && which < 3 ? parts[which] : 0;
  return SUCCESS;
}
const char *cudnnGetErrorString(UNUSED int status) { return "not supported by the phantom GPU"; }

/* A state of cuRAND, 48 bytes, for 1024 threads per multiprocessor: what requested and reserved memory of an LSTM with
 * dropout leave for it (docs/phantom-gpu.md). */
int cudnnDropoutGetStatesSize(UNUSED void *h, size_t *n) {
  *n = workspaces_by_rule() ? 48 * 1024 * setting_or("COOPSIM_PHANTOM_SMS", 108) : 1 << 20;
  return SUCCESS;
}

/* --- convolutions by the older interface (TORCH_CUDNN_V8_API_DISABLED): one algorithm, number 0, no workspace --- */

typedef struct {
  int algorithm, status;
  float time;
  size_t bytes;
  int determinism, math, reserved[3];
} Performance;  /* cudnnConvolutionFwdAlgoPerf_t and its two likes */

static int workspace_of(size_t *n) { *n = 0; return SUCCESS; }
int cudnnGetConvolutionForwardWorkspaceSize(UNUSED void *h, UNUSED void *x, UNUSED void *w, UNUSED void *conv,
    UNUSED void *y, UNUSED int algorithm, size_t *n) {
  return workspace_of(n);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(UNUSED void *h, UNUSED void *w, UNUSED void *dy, UNUSED void *conv,
    UNUSED void *dx, UNUSED int algorithm, size_t *n) {
  return workspace_of(n);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(UNUSED void *h, UNUSED void *x, UNUSED void *dy, UNUSED void *conv,
    UNUSED void *dw, UNUSED int algorithm, size_t *n) {
  return workspace_of(n);
}

static int one_algorithm(int *found, Performance *out) {
  *found = 1;
  *out = (Performance){.bytes = 0};
  return SUCCESS;
}
#define CHOICE(name)                                                                                                 \
  int cudnnGetConvolution##name##Algorithm_v7(UNUSED void *h, UNUSED void *a, UNUSED void *b, UNUSED void *conv,     \
      UNUSED void *c, UNUSED int wanted, int *found, Performance *out) {                                             \
    return one_algorithm(found, out);                                                                                \
  }                                                                                                                  \
  int cudnnFindConvolution##name##AlgorithmEx(UNUSED void *h, UNUSED void *a, UNUSED void *at, UNUSED void *b,       \
      UNUSED void *bt, UNUSED void *conv, UNUSED void *c, UNUSED void *ct, UNUSED int wanted, int *found,            \
      Performance *out) {                                                                                            \
    return one_algorithm(found, out);                                                                                \
  }
CHOICE(Forward)
CHOICE(BackwardData)
CHOICE(BackwardFilter)
