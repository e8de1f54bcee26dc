/* Copies and fills, in bytes and in time; what a pointer points to.
 *
 * A copy into device memory that is larger than COPY is not made, as it would cost host memory: zeros are there. */
#define _GNU_SOURCE
#include "clock.h"
#include "contents.h"
#include "host.h"
#include <dlfcn.h>

extern Status cudaGetDevice(int *device);

static int is_zero(const char *p, size_t n) { return !n || (!*p && !memcmp(p, p + 1, n - 1)); }

static void put(void *to, const void *from, size_t n) {
  phantom_clear(to, n);
  if (n > phantom_settings()->copy_limit || is_zero(from, n)) return;
  memcpy(to, from, n);
  phantom_wrote(to, n);
}

static void put_from_device(void *to, const void *from, size_t n) {
  void *between = NULL;
  if (n <= phantom_settings()->copy_limit && phantom_is_written(from, n)) between = malloc(n);
  if (!between) { phantom_clear(to, n); return; }
  phantom_read(between, from, n, phantom_blank);
  put(to, between, n);
  free(between);
}

/* What the next `times` reads of n bytes give if nothing is known of these (coopsim knows the op that reads). n is 0
 * for a count: ops keep theirs in 4 or in 8 bytes. */
static __thread struct { size_t n; uint64_t value; int times; } answer;
void coopsim_phantom_answer(size_t n, uint64_t value, int times) {
  answer.n = n;
  answer.value = value;
  answer.times = times;
}

static void get(void *to, const void *from, size_t n) {
  int is_asked = answer.times > 0 && (answer.n ? n == answer.n : n == 4 || n == 8);
  int is_answered = is_asked && !phantom_is_written(from, n);
  phantom_read(to, from, n, phantom_blank);
  if (!is_answered) return;
  memcpy(to, &answer.value, n);
  answer.times--;
}

static void copy(void *to, const void *from, size_t n) {
  int there = phantom_on_device(to), here = phantom_on_device(from);
  if (!n || to == from) return;
  if (there && here) put_from_device(to, from, n);
  else if (there) put(to, from, n);
  else if (here) get(to, from, n);
  else memmove(to, from, n);
}
void coopsim_phantom_copy(void *to, const void *from, size_t n) { copy(to, from, n); }  /* what NCCL moves */

/* Make device memory read as zeros again. */
void coopsim_phantom_clear(void *p, size_t n) { if (phantom_on_device(p)) phantom_clear(p, n); }

/* Every block that PyTorch's allocator hands out reads as zeros (blocks.c calls this). */
__attribute__((constructor)) static void listen(void) {
  typedef void (*OnBlock)(void (*)(void *, size_t));
  OnBlock on_block = (OnBlock)dlsym(RTLD_DEFAULT, "coopsim_on_block");
  if (on_block) on_block(coopsim_phantom_clear);
}

/* --- the runtime's calls --- */

static void take_time(void *to, const void *from, size_t n, void *stream) {
  int there = phantom_on_device(to), here = phantom_on_device(from);
  if (!there && !here) return;
  phantom_known_work(stream, there && here ? phantom_settings()->kernel : n * 1000 / phantom_settings()->bus);
  if (there && here) return;
  /* Memory that is not pinned goes through a buffer of the driver's: the host waits. */
  if (!phantom_is_pinned(there ? from : to)) phantom_host_until(phantom_stream_end(stream));
}

Status cudaMemcpyAsync(void *to, const void *from, size_t n, UNUSED int kind, void *stream) {
  LOG("cudaMemcpyAsync(%p, %p, %zu, %p)\n", to, from, n, stream);
  copy(to, from, n);
  take_time(to, from, n, stream);
  return OK;
}
Status cudaMemcpy(void *to, const void *from, size_t n, int kind) {
  cudaMemcpyAsync(to, from, n, kind, NULL);
  phantom_host_until(phantom_stream_end(NULL));
  return OK;
}
Status cudaMemcpyPeerAsync(void *to, UNUSED int a, const void *from, UNUSED int b, size_t n, void *stream) {
  return cudaMemcpyAsync(to, from, n, 0, stream);
}
Status cudaMemcpyPeer(void *to, UNUSED int a, const void *from, UNUSED int b, size_t n) {
  return cudaMemcpy(to, from, n, 0);
}
Status cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         UNUSED int kind, void *stream) {
  take_time(to, from, width * height, stream);
  for (size_t row = 0; row < height; row++)
    copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
  return OK;
}
Status cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                    int kind) {
  cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, NULL);
  phantom_host_until(phantom_stream_end(NULL));
  return OK;
}

Status cudaMemset(void *to, int value, size_t n) {
  if (!phantom_on_device(to)) { memset(to, value, n); return OK; }
  phantom_clear(to, n);
  if (!value || n > phantom_settings()->copy_limit) return OK;
  memset(to, value, n);
  phantom_wrote(to, n);
  return OK;
}
Status cudaMemsetAsync(void *to, int value, size_t n, void *stream) {
  LOG("cudaMemsetAsync(%p, %zu, %p)\n", to, n, stream);
  take_time(to, to, n, stream);
  return cudaMemset(to, value, n);
}
Status cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, void *stream) {
  take_time(to, to, width * height, stream);
  for (size_t row = 0; row < height; row++) cudaMemset((char *)to + row * pitch, value, width);
  return OK;
}
Status cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(to, pitch, value, width, height, NULL);
}

Status cudaPointerGetAttributes(void *out, const void *p) {
  enum { HOST = 1, DEVICE = 2, MANAGED = 3 };
  struct { int type, device; const void *device_pointer, *host_pointer; } a = {0, 0, NULL, p};
  cudaGetDevice(&a.device);
  if (phantom_on_device(p)) { a.type = DEVICE; a.device_pointer = p; a.host_pointer = NULL; }
  else if (phantom_is_managed(p)) { a.type = MANAGED; a.device_pointer = p; }
  else if (phantom_is_pinned(p)) { a.type = HOST; a.device_pointer = p; }
  memcpy(out, &a, sizeof a);
  return OK;
}
