/* The clock: what time it is for the host, and until when each stream is busy. Nothing of it is this machine's time.
 *
 * The host pays for each launch, for each op that PyTorch dispatches (which coopsim's dispatch mode tells), for cudaMalloc
 * and cudaFree, for pinning memory, for sleeping, and for waiting. A stream runs what it is given one after the other: a
 * kernel for the cost of its op as that tells it, or KERNEL ns where nobody does; a copy between host and card at the
 * speed of the bus; NCCL's work as nccl_time.c says. A launch waits while QUEUE launches before it on its stream are not
 * done; copies, the recording of events and waits for them take places in that queue, too. */
#define _GNU_SOURCE
#include "clock.h"
#include <dlfcn.h>
#include <link.h>

enum { MOST_STREAMS = 4096, MOST_QUEUE = 1 << 16, MANY_MISSES = 1000, FIRST_MISS_NS = 1000, LONGEST_MISS = 20 };
static const uint64_t WATCHDOG_NS = 100000000;  /* NCCL's watchdog looks ten times a second */

typedef struct { void *handle; uint64_t busy, launched, *ends; } Stream;

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static Stream streams[MOST_STREAMS];
static size_t n_streams, last_stream;
static uint64_t now, latest, progress, nccl_end;
static __thread uint64_t charged, launches;  /* on the stream, and how often, since the op began */
static __thread int launches_here;           /* is this a thread that launches? */
static __thread struct { uint64_t ns, bytes, ranks, stream; } collective;  /* NCCL's work since the op began */

static void lock(void) { pthread_mutex_lock(&guard); }
static void unlock(void) { pthread_mutex_unlock(&guard); }

/* What the libraries before all others have to say (watchdog.c): sleep, and NCCL's watchdogs. */
static void *preloaded(const char *name) { return dlsym(RTLD_DEFAULT, name); }

static void advance(uint64_t ns) { now += ns; }
static void until(uint64_t time) { if (time > now) now = time; }

static void count_sleep(void) {  /* the guard is held, as below */
  static uint64_t *slept;
  static int asked;
  if (!asked) { slept = preloaded("coopsim_slept_ns"); asked = 1; }
  if (slept && *slept) advance(__atomic_exchange_n(slept, 0, __ATOMIC_RELAXED));
}

static Stream *find(void *handle) {
  if (last_stream < n_streams && streams[last_stream].handle == handle) return streams + last_stream;
  for (last_stream = 0; last_stream < n_streams; last_stream++)
    if (streams[last_stream].handle == handle) return streams + last_stream;
  if (n_streams == MOST_STREAMS) { n_streams--; last_stream--; }  /* more than any program: the newest share one */
  else streams[last_stream].ends = calloc(phantom_settings()->queue, sizeof(uint64_t));
  streams[last_stream].handle = handle;
  n_streams++;
  return streams + last_stream;
}

static void work(void *handle, uint64_t ns) {
  Stream *s = find(handle);
  uint64_t *slot = s->ends + s->launched++ % phantom_settings()->queue;
  until(*slot);
  s->busy = (s->busy > now ? s->busy : now) + ns;
  if (s->busy > latest) latest = s->busy;
  *slot = s->busy;
  progress++;
}

void phantom_work(void *stream, uint64_t ns) {
  if (phantom_capture_of(stream)) return;  /* a graph's kernels run when it is launched */
  lock();
  count_sleep();
  work(stream, ns);
  unlock();
}

void phantom_launch(void *stream) {
  const Settings *s = phantom_settings();
  if (phantom_capture_of(stream)) return;
  lock();
  count_sleep();
  advance(s->launch);
  work(stream, s->kernel);
  unlock();
  charged += s->kernel;
  launches++;
  launches_here = 1;
}

void phantom_known_work(void *stream, uint64_t ns) {
  phantom_host(phantom_settings()->launch);
  phantom_work(stream, ns);
  charged += ns;
  launches++;
}

uint64_t phantom_now(void) { lock(); count_sleep(); uint64_t t = now; unlock(); return t; }
void phantom_host(uint64_t ns) { lock(); advance(ns); unlock(); }
/* Threads that launch nothing, as those of data loaders, pin memory beside the one whose time is followed. */
void phantom_page_lock(size_t bytes) { if (launches_here) phantom_host(bytes * phantom_settings()->page_lock / 1000); }
void phantom_host_until(uint64_t time) { lock(); count_sleep(); until(time); progress++; unlock(); }
void phantom_device_wait(void) { phantom_host_until(latest); }

uint64_t phantom_stream_end(void *stream) {
  lock();
  count_sleep();
  Stream *s = find(stream);
  uint64_t end = s->busy > now ? s->busy : now;
  unlock();
  return end;
}

uint64_t phantom_stream_mark(void *stream) {
  lock();
  count_sleep();
  work(stream, 0);
  uint64_t end = find(stream)->busy;
  unlock();
  return end;
}

void phantom_stream_wait(void *stream, uint64_t time) {
  lock();
  count_sleep();
  Stream *s = find(stream);
  if (time > s->busy) s->busy = time;
  work(stream, 0);
  unlock();
}

/* --- who asks whether something is done --- */

static struct { uintptr_t low, high; } allocator;

static int find_allocator(struct dl_phdr_info *info, UNUSED size_t n, UNUSED void *p) {
  if (!strstr(info->dlpi_name, "libc10_cuda.so")) return 0;
  allocator.low = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && end > allocator.high) allocator.high = end;
  }
  return 1;
}

enum { HOST, LOOKS, WAITS };

/* PyTorch's allocator asks at each request, NCCL's watchdogs at each look: they ask, and go on. But at its end a group
 * of ranks waits for its watchdog, which asks until all is done. */
static int who_asks(const void *caller) {
  static int (*is_watchdog)(void), (*insists)(void);
  if (!allocator.high) dl_iterate_phdr(find_allocator, NULL);
  if (!is_watchdog) {
    is_watchdog = (int (*)(void))preloaded("coopsim_is_watchdog");
    insists = (int (*)(void))preloaded("coopsim_watchdogs_insist");
  }
  if ((uintptr_t)caller >= allocator.low && (uintptr_t)caller < allocator.high) return LOOKS;
  if (!is_watchdog || !is_watchdog()) return HOST;
  return insists() ? WAITS : LOOKS;
}

/* A host that asks again, having done nothing in between, waits for what it asks for: time goes on. */
Status phantom_ask(const void *what, uint64_t time, const void *caller) {
  static const void *asked;
  static uint64_t misses, at;
  lock();
  count_sleep();
  int done = time <= now;
  int who = done ? LOOKS : who_asks(caller);
  if (who == WAITS) {
    until(time);
    done = 1;
  } else if (who == HOST) {
    misses = at == progress ? misses + 1 : 1;
    at = progress;
    int insists = launches_here || misses > MANY_MISSES;
    if (insists && misses > 1 && asked == what) until(time);
    else if (insists) advance((uint64_t)FIRST_MISS_NS << (misses < LONGEST_MISS ? misses : LONGEST_MISS));
    asked = what;
    done = time <= now;
  }
  unlock();
  return done ? OK : NOT_READY;
}

/* --- for coopsim's dispatch mode, and for the stand-in NCCL --- */

uint64_t coopsim_phantom_now(void) { return phantom_now(); }
void coopsim_phantom_host(uint64_t ns) { phantom_host(ns); }
uint64_t coopsim_phantom_stream_end(void *stream) { return phantom_stream_end(stream); }

void coopsim_phantom_nccl_work(void *stream, uint64_t ns, size_t bytes, int ranks) {
  collective.ns += ns;
  collective.bytes += bytes;
  if ((uint64_t)ranks > collective.ranks) collective.ranks = (uint64_t)ranks;
  collective.stream = (uint64_t)(uintptr_t)stream;
  if (phantom_capture_of(stream)) return;
  lock();
  count_sleep();
  advance(phantom_settings()->launch);
  work(stream, ns);
  if (find(stream)->busy > nccl_end) nccl_end = find(stream)->busy;
  unlock();
  charged += ns;
  launches++;
}

void coopsim_phantom_op_begins(void) {
  const Settings *s = phantom_settings();
  lock();
  count_sleep();
  advance(s->dispatch > s->launch ? s->dispatch - s->launch : 0);
  progress++;
  unlock();
  charged = launches = 0;
  memset(&collective, 0, sizeof collective);
  launches_here = 1;
}

/* What NCCL was given to do on this thread since the op began, or since this was asked last: how long it takes, the
 * bytes of its messages, the ranks of the largest group, the stream. All 0: nothing. */
void coopsim_phantom_collective(uint64_t *ns, uint64_t *bytes, uint64_t *ranks, uint64_t *stream) {
  *ns = collective.ns;
  *bytes = collective.bytes;
  *ranks = collective.ranks;
  *stream = collective.stream;
  memset(&collective, 0, sizeof collective);
}

/* The op's kernels take `ns` together, if that is more than what its launches were taken to. */
void coopsim_phantom_op_ends(void *stream, uint64_t ns) {
  static uint64_t looked_at;
  static void (*let_look)(void);
  const Settings *s = phantom_settings();
  int is_due, is_captured = phantom_capture_of(stream) != 0;
  lock();
  if (!launches) advance(s->launch);
  if (ns > charged && !is_captured) {
    if (!launches) work(stream, ns);
    else {
      Stream *own = find(stream);
      if (own->busy < now) own->busy = now;
      own->busy += ns - charged;
      if (own->launched) own->ends[(own->launched - 1) % s->queue] = own->busy;
      if (own->busy > latest) latest = own->busy;
    }
  }
  /* The watchdogs look at each tenth of a second of this clock, while the host stands still (watchdog.c). */
  is_due = nccl_end && now / WATCHDOG_NS > looked_at / WATCHDOG_NS;
  if (is_due) {
    looked_at = now;
    if (nccl_end <= now) nccl_end = 0;  /* all is done, and they will see it */
  }
  unlock();
  if (!is_due) return;
  if (!let_look) let_look = (void (*)(void))preloaded("coopsim_watchdogs_look");
  if (let_look) let_look();
}
