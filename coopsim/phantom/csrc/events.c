/* Events: all of them complete at once. They carry a capture from stream to stream, and they tell a time.
 *
 * The clock counts launches, 1 ms each. Code that times a kernel to decide how often to run it
 * (triton.testing.do_bench) would run it half a million times if it took no time. */
#include "phantom.h"

typedef struct { uint64_t launches, capture; } Event;
static const float NO_LAUNCH_MS = 0.001f;  /* not 0: programs divide by it */

Status cudaEventCreate(void **event) {
  *event = calloc(1, sizeof(Event));
  return phantom_fail(*event ? OK : OUT_OF_MEMORY);
}
Status cudaEventCreateWithFlags(void **event, UNUSED unsigned flags) { return cudaEventCreate(event); }
Status cudaEventDestroy(void *event) { free(event); return OK; }

Status cudaEventRecord(void *event, void *stream) {
  *(Event *)event = (Event){phantom_launches(), phantom_capture_of(stream)};
  return OK;
}
Status cudaEventRecordWithFlags(void *event, void *stream, UNUSED unsigned flags) {
  return cudaEventRecord(event, stream);
}
Status cudaStreamWaitEvent(void *stream, void *event, UNUSED unsigned flags) {
  return phantom_join_capture(stream, ((Event *)event)->capture);
}

Status cudaEventQuery(void *event) { return phantom_fail(((Event *)event)->capture ? CAPTURED_EVENT : OK); }
Status cudaEventSynchronize(void *event) { return cudaEventQuery(event); }
Status cudaEventElapsedTime(float *ms, const void *from, const void *to) {
  uint64_t n = ((const Event *)to)->launches - ((const Event *)from)->launches;
  *ms = n ? (float)n : NO_LAUNCH_MS;
  return OK;
}
