/* Events: a moment of a stream's time (clock.c). They carry a capture from stream to stream. */
#include "clock.h"

typedef struct { uint64_t time, capture; } Event;
static const double PAIR_NS = 1000;  /* between two events with nothing between them, as on a card (1.28 us on an H100) */

Status cudaEventCreate(void **event) {
  *event = calloc(1, sizeof(Event));
  return phantom_fail(*event ? OK : OUT_OF_MEMORY);
}
Status cudaEventCreateWithFlags(void **event, UNUSED unsigned flags) { return cudaEventCreate(event); }
Status cudaEventDestroy(void *event) {
  LOG("cudaEventDestroy(%p)\n", event);
  free(event);
  return OK;
}

Status cudaEventRecord(void *event, void *stream) {
  uint64_t capture = phantom_capture_of(stream);
  *(Event *)event = (Event){capture ? phantom_stream_end(stream) : phantom_stream_mark(stream), capture};
  LOG("cudaEventRecord(%p, %p)\n", event, stream);
  return OK;
}
Status cudaEventRecordWithFlags(void *event, void *stream, UNUSED unsigned flags) {
  return cudaEventRecord(event, stream);
}
Status cudaStreamWaitEvent(void *stream, void *event, UNUSED unsigned flags) {
  const Event *e = event;
  if (!e->capture) phantom_stream_wait(stream, e->time);
  LOG("cudaStreamWaitEvent(%p, %p)\n", stream, event);
  return phantom_join_capture(stream, e->capture);
}

Status cudaEventQuery(void *event) {
  const Event *e = event;
  if (e->capture) return phantom_fail(CAPTURED_EVENT);
  Status status = phantom_ask(e, e->time, __builtin_return_address(0));
  LOG("cudaEventQuery(%p)%s\n", event, status == OK ? "" : ": not ready");
  return status;
}
Status cudaEventSynchronize(void *event) {
  const Event *e = event;
  if (e->capture) return phantom_fail(CAPTURED_EVENT);
  phantom_host_until(e->time);
  LOG("cudaEventSynchronize(%p)\n", event);
  return OK;
}
Status cudaEventElapsedTime(float *ms, const void *from, const void *to) {
  double ns = (double)((const Event *)to)->time - (double)((const Event *)from)->time;
  *ms = (float)(((ns > 0 ? ns : 0) + PAIR_NS) / 1e6);
  return OK;
}
