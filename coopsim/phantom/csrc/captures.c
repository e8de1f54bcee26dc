/* Captures: which streams are being captured, into which CUDA graph.
 *
 * That is enough for memory: PyTorch's allocator serves a captured stream from a private pool, under the capture's
 * number, and keeps the pool for as long as the graph lives. A stream that waits for an event of a captured stream is
 * captured, too, until the capture ends. */
#include "phantom.h"

enum { NONE = 0, ACTIVE = 1, INVALIDATED = 2, MOST = 64 };
typedef struct { void *stream, *graph; uint64_t id; int is_origin, is_broken; } Captured;

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static Captured captured[MOST];
static size_t n_captured;  /* read without the lock, too: outside captures there is nothing to look up */
static uint64_t last_id;
static __thread int thread_mode;

static void lock(void) { pthread_mutex_lock(&guard); }
static void unlock(void) { pthread_mutex_unlock(&guard); }
static int is_underway(void) { return __atomic_load_n(&n_captured, __ATOMIC_RELAXED) != 0; }

static Captured *find(void *stream) {
  for (size_t i = 0; i < n_captured; i++)
    if (captured[i].stream == stream) return captured + i;
  return NULL;
}

static int add(Captured one) {
  if (n_captured == MOST) return 0;
  captured[n_captured] = one;
  __atomic_store_n(&n_captured, n_captured + 1, __ATOMIC_RELAXED);
  return 1;
}

static void forget(uint64_t id) {
  size_t kept = 0;
  for (size_t i = 0; i < n_captured; i++)
    if (captured[i].id != id) captured[kept++] = captured[i];
  __atomic_store_n(&n_captured, kept, __ATOMIC_RELAXED);
}

static Status begin(void *stream, void *graph) {
  lock();
  int begun = !find(stream) && add((Captured){stream, graph, ++last_id, 1, 0});
  unlock();
  return phantom_fail(begun ? OK : ILLEGAL_STATE);
}
Status cudaStreamBeginCapture(void *stream, UNUSED int mode) { return begin(stream, phantom_handle()); }
Status cudaStreamBeginCaptureToGraph(void *stream, void *graph) { return begin(stream, graph); }

Status cudaStreamEndCapture(void *stream, void **graph) {
  Status status = ILLEGAL_STATE;
  *graph = NULL;
  lock();
  Captured *own = find(stream);
  if (own && own->is_origin) {
    Captured ended = *own;
    forget(ended.id);
    status = ended.is_broken ? CAPTURE_INVALIDATED : OK;
    if (!ended.is_broken) *graph = ended.graph;
  }
  unlock();
  return phantom_fail(status);
}

static Captured look_up(void *stream) {
  Captured found = {0};
  if (!is_underway()) return found;
  lock();
  Captured *own = find(stream);
  if (own) found = *own;
  unlock();
  return found;
}

uint64_t phantom_capture_of(void *stream) { return look_up(stream).id; }

Status phantom_join_capture(void *stream, uint64_t capture) {
  if (!capture || !is_underway()) return OK;
  lock();
  int full = 0;
  for (size_t i = 0; i < n_captured && !find(stream); i++)
    if (captured[i].id == capture) full = !add((Captured){stream, captured[i].graph, capture, 0, captured[i].is_broken});
  unlock();
  return phantom_fail(full ? ILLEGAL_STATE : OK);
}

/* To wait for a captured stream is an error on a real card, and breaks the capture. */
Status phantom_wait(void *stream) {
  if (!is_underway()) return OK;
  lock();
  Captured *own = find(stream);
  uint64_t id = own ? own->id : 0;
  for (size_t i = 0; i < n_captured; i++)
    if (captured[i].id == id) captured[i].is_broken = 1;
  unlock();
  return phantom_fail(own ? CAPTURE_UNSUPPORTED : OK);
}

Status cudaStreamGetCaptureInfo(void *stream, int *status, uint64_t *id, void **graph, void **nodes, void **edges,
                                size_t *n) {
  Captured found = look_up(stream);
  if (status) *status = !found.id ? NONE : found.is_broken ? INVALIDATED : ACTIVE;
  if (id) *id = found.id;
  if (graph) *graph = found.graph;
  if (nodes) *nodes = NULL;
  if (edges) *edges = NULL;
  if (n) *n = 0;
  return OK;
}
/* CUDA 12's name; it has no argument for edges */
Status cudaStreamGetCaptureInfo_v2(void *s, int *status, uint64_t *id, void **graph, void **nodes, size_t *n) {
  return cudaStreamGetCaptureInfo(s, status, id, graph, nodes, NULL, n);
}
Status cudaStreamIsCapturing(void *stream, int *status) {
  return cudaStreamGetCaptureInfo(stream, status, NULL, NULL, NULL, NULL, NULL);
}
Status cudaThreadExchangeStreamCaptureMode(int *mode) {
  int before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return OK;
}
Status cudaStreamUpdateCaptureDependencies(void) { return OK; }
