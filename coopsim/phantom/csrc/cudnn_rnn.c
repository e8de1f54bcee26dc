/* cuDNN's RNNs. Size and layout of the weights are exact (all matrices, then all biases), because PyTorch cuts its
 * parameters out of that buffer; what an RNN asks for while it runs follows cudnn_sizes.c. */
#include "answers.h"
#include "cudnn_sizes.h"

typedef struct { int mode, bias, bidirectional, input, hidden, projection, layers, type; } Rnn;
typedef struct { int type, rank, size[8]; } Tensor;
typedef struct { int steps, batch, packed; } Sequences;

enum { PACKED = 1 };  /* CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED */

static size_t element_bytes(int type) { return type == 1 ? 8 : type == 2 || type == 9 ? 2 : 4; }
static int gates(int mode) { return mode == 2 ? 4 : mode == 3 ? 3 : 1; }  /* LSTM, GRU, plain */
static int pseudo_layers(const Rnn *r) { return r->layers * (r->bidirectional + 1); }
static int is_projected(const Rnn *r) { return r->projection > 0 && r->projection < r->hidden; }
static int output(const Rnn *r) { return is_projected(r) ? r->projection : r->hidden; }
/* Of a pseudo-layer: those of the gates for its input, those for its output, the projection. */
static int matrices(const Rnn *r) { return 2 * gates(r->mode) + is_projected(r); }
static int rows(const Rnn *r, int id) { return id < 2 * gates(r->mode) ? r->hidden : r->projection; }
static int columns(const Rnn *r, int layer, int id) {
  if (id >= gates(r->mode)) return id < 2 * gates(r->mode) ? output(r) : r->hidden;
  return layer / (r->bidirectional + 1) ? output(r) * (r->bidirectional + 1) : r->input;
}

/* Elements that lie before matrix `id` of pseudo-layer `layer`. */
static size_t matrices_before(const Rnn *r, int layer, int id) {
  size_t n = 0;
  for (int p = 0; p <= layer; p++)
    for (int k = 0; k < matrices(r); k++) {
      if (p == layer && k == id) return n;
      n += (size_t)rows(r, k) * (size_t)columns(r, p, k);
    }
  return n;
}

int cudnnCreateRNNDescriptor(void **d) { *d = calloc(1, sizeof(Rnn)); return *d ? SUCCESS : 2; }
int cudnnDestroyRNNDescriptor(void *d) { free(d); return SUCCESS; }
int cudnnSetRNNDescriptor_v8(Rnn *r, UNUSED int algorithm, int cell, int bias, int direction, UNUSED int input_mode,
                             int type, UNUSED int math_type, UNUSED int math_mode, int input, int hidden,
                             int projection, int layers, UNUSED void *dropout, UNUSED unsigned flags) {
  *r = (Rnn){cell, bias, direction, input, hidden, projection, layers, type};
  return SUCCESS;
}

int cudnnCreateTensorDescriptor(void **d) { *d = calloc(1, sizeof(Tensor)); return *d ? SUCCESS : 2; }
int cudnnDestroyTensorDescriptor(void *d) { free(d); return SUCCESS; }
int cudnnSetTensorNdDescriptor(Tensor *t, int type, int rank, const int *size, UNUSED const int *stride) {
  t->type = type;
  t->rank = rank < 8 ? rank : 8;
  memcpy(t->size, size, sizeof(int) * (size_t)t->rank);
  return SUCCESS;
}
int cudnnGetTensorNdDescriptor(const Tensor *t, int requested, int *type, int *rank, int *size, int *stride) {
  if (type) *type = t->type;
  if (rank) *rank = t->rank;
  int step = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (i < requested) {
      size[i] = t->size[i];
      if (stride) stride[i] = step;
    }
    step *= t->size[i];
  }
  return SUCCESS;
}

int cudnnGetRNNWeightSpaceSize(UNUSED void *handle, const Rnn *r, size_t *bytes) {
  int layers = pseudo_layers(r), per_layer = 2 * gates(r->mode);
  size_t biases = r->bias ? (size_t)layers * (size_t)per_layer * (size_t)r->hidden : 0;
  *bytes = (matrices_before(r, layers - 1, matrices(r)) + biases) * element_bytes(r->type);
  return SUCCESS;
}

int cudnnGetRNNWeightParams(UNUSED void *handle, const Rnn *r, int layer, UNUSED size_t bytes, char *weights, int id,
                            Tensor *matrix, char **matrix_at, Tensor *bias, char **bias_at) {
  Tensor spare_matrix, spare_bias;
  char *spare_at;
  if (!matrix) matrix = &spare_matrix;
  if (!bias) bias = &spare_bias;
  if (!matrix_at) matrix_at = &spare_at;
  if (!bias_at) bias_at = &spare_at;
  int per_layer = 2 * gates(r->mode), layers = pseudo_layers(r);
  if (id >= matrices(r)) {
    matrix->rank = bias->rank = 0;
    *matrix_at = *bias_at = NULL;
    return SUCCESS;
  }
  size_t element = element_bytes(r->type);
  *matrix = (Tensor){r->type, 3, {1, rows(r, id), columns(r, layer, id)}};
  *matrix_at = weights + matrices_before(r, layer, id) * element;
  if (id >= per_layer) {  /* a projection has no bias */
    bias->rank = 0;
    *bias_at = NULL;
    return SUCCESS;
  }
  *bias = (Tensor){r->type, 3, {1, r->hidden, 1}};
  size_t before = (size_t)layer * (size_t)per_layer + (size_t)id;
  *bias_at = r->bias ? weights + (matrices_before(r, layers - 1, matrices(r)) + before * (size_t)r->hidden) * element
                     : NULL;
  return SUCCESS;
}

int cudnnCreateRNNDataDescriptor(void **d) { *d = calloc(1, sizeof(Sequences)); return *d ? SUCCESS : 2; }
int cudnnDestroyRNNDataDescriptor(void *d) { free(d); return SUCCESS; }
int cudnnSetRNNDataDescriptor(Sequences *d, UNUSED int type, int layout, int steps, int batch, UNUSED int width,
                              UNUSED const int *lengths, UNUSED void *fill) {
  *d = (Sequences){steps, batch, layout == PACKED};
  return SUCCESS;
}

int cudnnGetRNNTempSpaceSizes(void *handle, const Rnn *r, int training, const Sequences *x, size_t *work,
                              size_t *reserve) {
  if (work) *work = 0;
  if (reserve) *reserve = 0;
  if (!r || !x) return SUCCESS;
  size_t weights;
  cudnnGetRNNWeightSpaceSize(handle, r, &weights);
  Recurrence of = {gates(r->mode), (int)element_bytes(r->type), r->bidirectional + 1, r->layers,
                   x->packed, x->batch, x->steps, r->input, r->hidden, (int64_t)weights};
  int64_t kept = training ? rnn_reserve(&of) : 0, both = rnn_workspace(&of) + kept;
  if (asked_for(both) != both) return SUCCESS;
  if (work) *work = (size_t)(both - kept);
  if (reserve) *reserve = (size_t)kept;
  return SUCCESS;
}
