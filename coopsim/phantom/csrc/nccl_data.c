/* NCCL: collectives, and messages from one rank to another.
 *
 * An imagined rank holds what this one holds: a gather repeats this rank's part, a scatter gives this rank its own, a
 * reduction gives what went in (a sum of integers: times the number of ranks, so that counts come out right).
 * As everywhere on the phantom, no more is really copied than COOPSIM_PHANTOM_COPY allows. */
#include "nccl.h"

enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT, TYPES = 12 };  /* ncclDataType_t */
static const size_t width[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
enum { SUM, PROD, MAX, MIN, AVG, FIRST_OF_USERS };  /* ncclRedOp_t */
enum { GROUPED = 4096 };
static __thread int depth;  /* of groups */

static size_t copy_limit(void) {
  size_t limit = setting("COOPSIM_PHANTOM_COPY");
  return limit ? limit : 1 << 20;
}
static void copy(void *to, const void *from, size_t n) { if (n && to != from) coopsim_phantom_copy(to, from, n); }

static void multiply(void *p, size_t count, int type, int by) {
  if (count * width[type] > copy_limit()) return;
  for (size_t i = 0; i < count; i++)
    switch (type) {
      case INT32: case UINT32: ((uint32_t *)p)[i] *= (uint32_t)by; break;
      case INT64: case UINT64: ((uint64_t *)p)[i] *= (uint64_t)by; break;
      default: return;
    }
}

#define REDUCE(T)                                                                                                    \
  for (size_t i = 0; i < count; i++) {                                                                               \
    T x = ((const T *)all)[i];                                                                                       \
    for (int r = 1; r < size; r++) {                                                                                 \
      T y = ((const T *)all)[(size_t)r * count + i];                                                                 \
      x = op == PROD ? x * y : op == MAX ? (y > x ? y : x) : op == MIN ? (y < x ? y : x) : x + y;                    \
    }                                                                                                                \
    ((T *)out)[i] = op == AVG ? x / (T)size : x;                                                                     \
  }
static void reduce(void *out, const char *all, size_t count, int type, int op, int size) {
  switch (type) {
    case INT8: REDUCE(int8_t) break;
    case UINT8: REDUCE(uint8_t) break;
    case INT32: REDUCE(int32_t) break;
    case UINT32: REDUCE(uint32_t) break;
    case INT64: REDUCE(int64_t) break;
    case UINT64: REDUCE(uint64_t) break;
    case FLOAT: REDUCE(float) break;
    case DOUBLE: REDUCE(double) break;
    default: copy(out, all, count * width[type]);  /* 16 bits and less: kernels have left zeros anyway */
  }
}

Result ncclRedOpCreatePreMulSum(int *op, UNUSED void *scalar, UNUSED int type, UNUSED int where, UNUSED Comm *c) {
  *op = FIRST_OF_USERS;
  return SUCCESS;
}

Result ncclAllReduce(const void *in, void *out, size_t count, int type, int op, Comm *c, void *stream) {
  size_t n = count * width[type];
  nccl_takes(c, ALL_REDUCE, n, stream);
  if (nccl_exchanges(c, n)) {
    char all[EXCHANGED], sums[EXCHANGED];
    nccl_exchange(c, in, n, all);
    reduce(sums, all, count, type, op, c->size);
    copy(out, sums, n);
    return SUCCESS;
  }
  copy(out, in, n);
  if (op == SUM) multiply(out, count, type, c->size);
  return SUCCESS;
}

Result ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, Comm *c, void *stream) {
  char unused[EXCHANGED];
  if (c->rank == root) return ncclAllReduce(in, out, count, type, op, c, stream);
  nccl_takes(c, ONE_TO_ALL, count * width[type], stream);
  if (nccl_exchanges(c, count * width[type])) nccl_exchange(c, in, count * width[type], unused);
  return SUCCESS;
}

Result ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, Comm *c, void *stream) {
  size_t n = count * width[type];
  nccl_takes(c, HALF_OF_IT, n * (size_t)c->size, stream);
  if (nccl_exchanges(c, n * (size_t)c->size)) {
    char all[EXCHANGED], sums[EXCHANGED];
    nccl_exchange(c, in, n * (size_t)c->size, all);
    reduce(sums, all, count * (size_t)c->size, type, op, c->size);
    copy(out, sums + (size_t)c->rank * n, n);
    return SUCCESS;
  }
  copy(out, (const char *)in + (size_t)c->rank * n, n);
  if (op == SUM) multiply(out, count, type, c->size);
  return SUCCESS;
}

Result ncclAllGather(const void *in, void *out, size_t count, int type, Comm *c, void *stream) {
  size_t n = count * width[type];
  nccl_takes(c, HALF_OF_IT, n * (size_t)c->size, stream);
  if (nccl_exchanges(c, n)) {
    char all[EXCHANGED];
    nccl_exchange(c, in, n, all);
    copy(out, all, n * (size_t)c->size);
  } else if (n * (size_t)c->size <= copy_limit()) {
    for (int r = 0; r < c->size; r++) copy((char *)out + (size_t)r * n, in, n);
  }
  return SUCCESS;
}

/* A group of broadcasts, one from each rank in turn, of one size each: PyTorch 2.15 gathers lists of tensors so. */
static __thread struct { void *p[GROUPED]; size_t n; int parts; Comm *c; } gathered;
static void gathers(int root, void *out, size_t n, Comm *c) {
  if (!root) gathered.parts = 0, gathered.n = n, gathered.c = c;
  int next = root == gathered.parts && root < GROUPED && n == gathered.n && c == gathered.c;
  if (next) gathered.p[gathered.parts++] = out;
  else gathered.parts = 0;
  if (!next || gathered.parts < c->size) return;
  for (int r = 0; r < c->size; r++) copy(gathered.p[r], gathered.p[c->rank], n);
}

Result ncclBroadcast(const void *in, void *out, size_t count, int type, int root, Comm *c, void *stream) {
  size_t n = count * width[type];
  nccl_takes(c, ONE_TO_ALL, n, stream);
  if (nccl_exchanges(c, n)) {
    char all[EXCHANGED];
    nccl_exchange(c, c->rank == root ? in : out, n, all);
    copy(out, all + (size_t)root * n, n);
  } else {
    if (c->rank == root) copy(out, in, n);
    if (depth) gathers(root, out, n, c);
  }
  return SUCCESS;
}
Result ncclBcast(void *p, size_t count, int type, int root, Comm *c, void *stream) {
  return ncclBroadcast(p, p, count, type, root, c, stream);
}

Result ncclGather(const void *in, void *out, size_t count, int type, int root, Comm *c, void *stream) {
  char unused[EXCHANGED];
  if (c->rank == root) return ncclAllGather(in, out, count, type, c, stream);
  nccl_takes(c, ONE_TO_ONE, count * width[type], stream);
  if (nccl_exchanges(c, count * width[type])) nccl_exchange(c, in, count * width[type], unused);
  return SUCCESS;
}

Result ncclScatter(const void *in, void *out, size_t count, int type, int root, Comm *c, void *stream) {
  size_t n = count * width[type];
  nccl_takes(c, HALF_OF_IT, n * (size_t)c->size, stream);
  if (c->rank == root) copy(out, (const char *)in + (size_t)c->rank * n, n);
  return SUCCESS;
}

Result ncclAlltoAll(const void *in, void *out, size_t count, int type, Comm *c, void *stream) {
  size_t n = count * width[type], sent = n * (size_t)c->size;
  nccl_takes(c, HALF_OF_IT, sent, stream);
  if (!nccl_exchanges(c, sent)) { copy(out, in, sent); return SUCCESS; }
  char all[EXCHANGED];
  nccl_exchange(c, in, sent, all);
  for (int r = 0; r < c->size; r++) copy((char *)out + (size_t)r * n, all + (size_t)r * sent + (size_t)c->rank * n, n);
  return SUCCESS;
}

/* --- from one to another: in a group everything is sent before anything is received --- */

typedef struct { void *p; size_t n; int peer; Comm *c; } Receive;
static __thread Receive waiting[GROUPED];
static __thread int n_waiting;

Result ncclGroupStart(void) { if (!depth++) gathered.parts = 0; return SUCCESS; }
Result ncclGroupEnd(void) {
  if (--depth) return SUCCESS;
  for (int i = 0; i < n_waiting; i++) nccl_receive(waiting[i].c, waiting[i].peer, waiting[i].p, waiting[i].n);
  n_waiting = 0;
  return SUCCESS;
}
Result ncclSend(const void *p, size_t count, int type, int peer, Comm *c, void *stream) {
  nccl_takes(c, ONE_TO_ONE, count * width[type], stream);
  nccl_send(c, peer, p, count * width[type]);
  return SUCCESS;
}
Result ncclRecv(void *p, size_t count, int type, int peer, Comm *c, void *stream) {
  Receive r = {p, count * width[type], peer, c};
  nccl_takes(c, ONE_TO_ONE, r.n, stream);
  if (depth && n_waiting < GROUPED) waiting[n_waiting++] = r;
  else nccl_receive(c, peer, p, r.n);
  return SUCCESS;
}
