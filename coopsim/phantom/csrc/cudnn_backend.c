/* cuDNN's graphs, as PyTorch's convolutions use them: tensors and a convolution make an operation, it a graph, the graph
 * a heuristic, its results configurations, and these plans. Each descriptor copies what it is given, which the caller
 * may drop.
 *
 * The heuristic has two results: a plan with the workspace of cudnn_sizes.c and one without. PyTorch takes the first
 * whose workspace it can allocate; with cudnn.benchmark the fastest, and as all take no time here, the first too. */
#include "answers.h"
#include "cudnn_sizes.h"

/* Of cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t. */
enum { CONVOLUTION = 1, FORWARD_OP = 10, WEIGHT_OP = 11, DATA_OP = 12, TENSOR = 17 };
enum { STRIDES = 103, HEURISTIC_GRAPH = 201, HEURISTIC_RESULTS = 202, PLAN_CONFIG = 401, PLAN_WORKSPACE = 402,
       PLAN_JSON = 405, FIRST_OF_CONVOLUTION = 700, LAST_OF_CONVOLUTION = 717, GRAPH_OPS = 801, DATA_TYPE = 901,
       DIMENSIONS = 902, TENSOR_STRIDES = 903 };
enum { DESCRIPTOR = 15 };
enum { RANK = 8 };

typedef struct { int64_t rank, type, size[RANK], stride[RANK]; } Tensor;
typedef struct {
  int type, is_convolution, kind;  /* kind: of convolution */
  int64_t workspace;               /* bytes, of a configuration or plan */
  Tensor x, w, y;                  /* a tensor is its own x */
  int64_t rank, stride[RANK];
} Descriptor;

/* Of each kind of operation the attributes are alpha, beta, convolution, and the tensors w, x, y. */
static void operation(Descriptor *op, int name, const Descriptor *given) {
  op->is_convolution = 1;
  op->kind = op->type == FORWARD_OP ? FORWARD : op->type == DATA_OP ? DATA_GRADIENT : WEIGHT_GRADIENT;
  switch ((name - FIRST_OF_CONVOLUTION) % 6) {
    case 2:
      op->rank = given->rank;
      memcpy(op->stride, given->stride, sizeof op->stride);
      break;
    case 3: op->w = given->x; break;
    case 4: op->x = given->x; break;
    case 5: op->y = given->x; break;
  }
}

static int64_t workspace_of(const Descriptor *graph) {
  const Tensor *x = &graph->x, *w = &graph->w, *y = &graph->y;
  if (!graph->is_convolution || x->rank < 3 || w->rank != x->rank || y->rank != x->rank) return 0;
  Convolution c = {.kind = graph->kind, .bytes = x->type == 0 ? 4 : x->type == 2 || x->type == 9 ? 2 : 0,
                   .batch = x->size[0], .channels = x->size[1], .filters = y->size[1],
                   .points = 1, .results = 1, .taps = 1, .spatial = (int)x->rank - 2};
  for (int64_t i = 2; i < x->rank; i++) {
    c.points *= x->size[i];
    c.results *= y->size[i];
    c.taps *= w->size[i];
    c.strided |= i - 2 < graph->rank && graph->stride[i - 2] > 1;
  }
  c.groups = w->size[1] ? c.channels / w->size[1] : 0;
  c.channels_last = c.channels > 1 && x->stride[1] == 1 && x->stride[x->rank - 1] > 1;
  if (!c.batch || c.groups < 1 || !c.filters || !c.points || !c.results || !c.taps) return 0;
  return asked_for(convolution_workspace(&c, (int64_t)setting_or("COOPSIM_PHANTOM_SMS", 108)));
}

int cudnnBackendCreateDescriptor(int type, void **descriptor) {
  Descriptor *d = calloc(1, sizeof(Descriptor));
  *descriptor = d;
  if (!d) return 2;
  d->type = type;
  return SUCCESS;
}
int cudnnBackendDestroyDescriptor(void *descriptor) { free(descriptor); return SUCCESS; }

static void become(Descriptor *d, const Descriptor *given) {
  int type = d->type;
  *d = *given;
  d->type = type;
}

static void take_numbers(Descriptor *d, int name, int64_t n, const void *values) {
  if (n > RANK) n = RANK;
  size_t bytes = (size_t)n * sizeof(int64_t);
  if (d->type == CONVOLUTION && name == STRIDES) d->rank = n, memcpy(d->stride, values, bytes);
  if (d->type != TENSOR) return;
  if (name == DATA_TYPE) d->x.type = *(const int *)values;
  if (name == DIMENSIONS) d->x.rank = n, memcpy(d->x.size, values, bytes);
  if (name == TENSOR_STRIDES) memcpy(d->x.stride, values, bytes);
}

int cudnnBackendSetAttribute(Descriptor *d, int name, int type, int64_t count, const void *values) {
  if (!d || !values || count < 1) return SUCCESS;
  if (type != DESCRIPTOR) {
    take_numbers(d, name, count, values);
    return SUCCESS;
  }
  const Descriptor *const *given = values;
  for (int64_t i = 0; i < count; i++) {
    if (!given[i]) continue;
    if (name >= FIRST_OF_CONVOLUTION && name <= LAST_OF_CONVOLUTION) operation(d, name, given[i]);
    else if (name == GRAPH_OPS ? given[i]->is_convolution : name == HEURISTIC_GRAPH || name == PLAN_CONFIG)
      become(d, given[i]);
  }
  return SUCCESS;
}

int64_t coopsim_phantom_convolutions;  /* configurations that were asked for */
int64_t coopsim_phantom_left_out;      /* bytes of the largest workspace that was asked for and left out */

static int64_t results_of(const Descriptor *heuristic, int64_t requested, Descriptor **out) {
  int64_t bytes = workspace_of(heuristic), n = bytes ? 2 : 1;
  coopsim_phantom_convolutions += heuristic->is_convolution;
  if (out && n > requested) n = requested;
  for (int64_t i = 0; out && i < n; i++)
    if (out[i]) out[i]->workspace = i ? 0 : bytes;
  return n;
}

int cudnnBackendGetAttribute(Descriptor *d, int name, int type, int64_t requested, int64_t *count, void *out) {
  int64_t n = 1;
  switch (name) {
    case HEURISTIC_RESULTS: n = results_of(d, requested, out); break;
    case PLAN_WORKSPACE: if (out) *(int64_t *)out = d->workspace; break;
    case PLAN_JSON: n = 3; if (out && requested >= 3) memcpy(out, "{}", 3); break;
    case 301: case 302: case 1302: case 1303: case 1304: case 1305: n = 0; break;  /* knobs, notes: none */
    default: if (out && type != DESCRIPTOR) memset(out, 0, 8);  /* a descriptor is left as it is */
  }
  if (count) *count = n;
  return SUCCESS;
}
