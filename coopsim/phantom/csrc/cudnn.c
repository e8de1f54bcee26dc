/* cuDNN: its version, descriptors, plans that ask for COOPSIM_PHANTOM_WORKSPACE bytes. RNNs are in cudnn_rnn.c. */
#include "answers.h"

#ifndef CUDNN_VERSION_NUMBER  /* build.py passes the version that this torch was built for */
#define CUDNN_VERSION_NUMBER 92400
#endif

static size_t workspace(void) { return setting("COOPSIM_PHANTOM_WORKSPACE"); }

int cudnnCreate(void **handle) { coopsim_phantom_loaded(CUDNN); return new_handle(handle); }
size_t cudnnGetVersion(void) { return CUDNN_VERSION_NUMBER; }
size_t cudnnGetCudartVersion(void) { return 13000; }
int cudnnGetProperty(int which, int *value) {
  const int parts[] = {CUDNN_VERSION_NUMBER / 10000, CUDNN_VERSION_NUMBER / 100 % 100, CUDNN_VERSION_NUMBER % 100};
  *value = which >= 0 && which < 3 ? parts[which] : 0;
  return SUCCESS;
}
const char *cudnnGetErrorString(UNUSED int status) { return "not supported by the phantom GPU"; }

int cudnnBackendCreateDescriptor(UNUSED int type, void **descriptor) {
  *descriptor = calloc(1, 64);
  return *descriptor ? SUCCESS : 2;
}
int cudnnBackendDestroyDescriptor(void *descriptor) { free(descriptor); return SUCCESS; }

/* Numbers of cudnnBackendAttributeName_t; type 15 is a descriptor, which is left as it is. */
int cudnnBackendGetAttribute(UNUSED void *descriptor, int name, int type, int64_t requested, int64_t *count, void *out) {
  int64_t n = 1;
  switch (name) {
    case 202: break;                                                         /* heuristic results: one plan */
    case 402: if (out) *(int64_t *)out = (int64_t)workspace(); break;        /* workspace of a plan */
    case 405: n = 3; if (out && requested >= 3) memcpy(out, "{}", 3); break; /* a plan as JSON */
    case 301: case 302: case 1302: case 1303: case 1304: case 1305: n = 0; break;  /* knobs, notes: none */
    default: if (out && type != 15) memset(out, 0, 8);
  }
  if (count) *count = n;
  return SUCCESS;
}

int cudnnDropoutGetStatesSize(UNUSED void *h, size_t *n) { *n = 1 << 20; return SUCCESS; }

/* --- convolutions by the older interface: one algorithm, number 0 --- */

typedef struct {
  int algorithm, status;
  float time;
  size_t bytes;
  int determinism, math, reserved[3];
} Performance;  /* cudnnConvolutionFwdAlgoPerf_t and its two likes */

static int workspace_of(size_t *n) { *n = workspace(); return SUCCESS; }
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
  *out = (Performance){.bytes = workspace()};
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
