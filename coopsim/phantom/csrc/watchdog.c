// NCCL's watchdogs, and sleep, by the phantom's clock (clock.c).
//
// A watchdog is a thread of ProcessGroupNCCL that looks ten times a second, by this machine's time, whether collectives
// are done; what is, lets its tensors go. When it looks would so depend on the machine. Here it looks when the host's
// modelled time has come to the next tenth of a second, and the host stands still until it has. It is part of the
// library that is loaded before all others, as calls of the C library can be replaced only there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, NAME = 16, PARKED_MS = 2, PATIENCE_MS = 5000, SPIN_US = 200 };
static const char WATCHDOG[] = "pt_nccl_watchdg";

typedef struct { unsigned due, seen; int waits, gone; } Watchdog;
static Watchdog watchdogs[MOST];
static int n_watchdogs, expected, is_on, is_time_to_look;
static __thread Watchdog *own;
static __thread int known;  // 0: not asked, 1: a watchdog, 2: another thread
static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

uint64_t coopsim_slept_ns;  // not yet counted

static void ends(void *watchdog) { __atomic_store_n(&((Watchdog *)watchdog)->gone, 1, __ATOMIC_SEQ_CST); }
static void make_key(void) { pthread_key_create(&at_end, ends); }

int coopsim_is_watchdog(void) {
  if (!known) {
    char name[NAME] = "";
    prctl(PR_GET_NAME, name);
    known = strncmp(name, WATCHDOG, NAME - 1) ? 2 : 1;
  }
  return known == 1;
}

static struct timespec after_ms(int ms) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += ms * 1000000l;
  t.tv_sec += t.tv_nsec / 1000000000l;
  t.tv_nsec %= 1000000000l;
  return t;
}

typedef int (*Wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static Wait next_wait(void) {
  static Wait found;
  if (!found) found = (Wait)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!found) found = (Wait)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  return found;
}

static pthread_t joined;  // the last thread whose end somebody waits for
static int is_joined(void) { return pthread_equal(__atomic_load_n(&joined, __ATOMIC_SEQ_CST), pthread_self()); }
static int is_due(void) { return __atomic_load_n(&own->due, __ATOMIC_SEQ_CST) != own->seen; }

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end) {
  Wait wait = next_wait();
  if (!is_on || !coopsim_is_watchdog()) return wait(condition, mutex, end);
  if (!own) {
    int i = __atomic_fetch_add(&n_watchdogs, 1, __ATOMIC_SEQ_CST);
    if (i >= MOST) { known = 2; return wait(condition, mutex, end); }
    own = watchdogs + i;
    pthread_once(&once, make_key);
    pthread_setspecific(at_end, own);
  }
  __atomic_store_n(&own->waits, 1, __ATOMIC_SEQ_CST);
  int status = wait(condition, mutex, end);  // its own wait, too: it asks this machine's clock whether it was one
  while (status == ETIMEDOUT && !is_due() && !is_joined()) {
    struct timespec soon = after_ms(PARKED_MS);
    status = wait(condition, mutex, &soon);
  }
  __atomic_store_n(&own->waits, 0, __ATOMIC_SEQ_CST);
  if (status == ETIMEDOUT && is_due()) __atomic_add_fetch(&own->seen, 1, __ATOMIC_SEQ_CST);
  return status;
}

// A group that ends says so without the mutex, and a watchdog that is about to wait misses it. It has to look by itself.
int pthread_join(pthread_t thread, void **value) {
  static int (*next)(pthread_t, void **);
  if (!next) next = (int (*)(pthread_t, void **))dlsym(RTLD_NEXT, "pthread_join");
  __atomic_store_n(&joined, thread, __ATOMIC_SEQ_CST);
  return next(thread, value);
}

static int has_looked(Watchdog *w) {
  return __atomic_load_n(&w->gone, __ATOMIC_SEQ_CST)
      || (__atomic_load_n(&w->seen, __ATOMIC_SEQ_CST) == w->due && __atomic_load_n(&w->waits, __ATOMIC_SEQ_CST));
}

static int all_are_there(void) { return __atomic_load_n(&n_watchdogs, __ATOMIC_SEQ_CST) >= expected; }
static int all_have_looked(void) {
  for (int i = 0; i < n_watchdogs && i < MOST; i++)
    if (!has_looked(watchdogs + i)) return 0;
  return 1;
}
static int wait_until(int (*fact)(void)) {  // for so long: a watchdog that hangs must not hang all
  for (int us = 0; us < PATIENCE_MS * 1000; us += SPIN_US) {
    if (fact()) return 1;
    struct timespec spin = {0, SPIN_US * 1000l};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &spin, NULL);
  }
  return 0;
}

// From now on they wait for the clock. So many groups of ranks have a watchdog.
void coopsim_watchdogs_expect(int n) { expected = n; is_on = 1; }

// Does one of them ask though it is not time to look? Then the group of ranks ends, and waits for it.
int coopsim_watchdogs_insist(void) { return is_on && !__atomic_load_n(&is_time_to_look, __ATOMIC_SEQ_CST); }

void coopsim_watchdogs_look(void) {
  if (!is_on) return;
  __atomic_store_n(&is_time_to_look, 1, __ATOMIC_SEQ_CST);
  if (!wait_until(all_are_there)) expected = n_watchdogs;
  for (int i = 0; i < n_watchdogs && i < MOST; i++)
    __atomic_store_n(&watchdogs[i].due, watchdogs[i].seen + 1, __ATOMIC_SEQ_CST);
  wait_until(all_have_looked);
  __atomic_store_n(&is_time_to_look, 0, __ATOMIC_SEQ_CST);
}

// PyTorch sleeps between looks of its own (TORCH_NCCL_BLOCKING_WAIT); Python's sleep is counted where it is called.
int nanosleep(const struct timespec *time, struct timespec *left) {
  static int (*next)(const struct timespec *, struct timespec *);
  if (!next) next = (int (*)(const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "nanosleep");
  char name[NAME] = "";
  prctl(PR_GET_NAME, name);
  if (getpid() == gettid() || !strncmp(name, "pt_autograd", 11)) {
    uint64_t ns = (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
    __atomic_add_fetch(&coopsim_slept_ns, ns, __ATOMIC_RELAXED);
  }
  return next(time, left);
}
