/* The card, as the environment describes it; defaults are those of an A100-SXM4-80GB. */
#include "phantom.h"

static Settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t number(const char *suffix, uint64_t otherwise) {
  char key[64];
  snprintf(key, sizeof key, "COOPSIM_PHANTOM_%s", suffix);
  const char *text = getenv(key);
  return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void read_settings(void) {
  Settings *s = &settings;
  s->total = number("TOTAL", 80ull << 30);
  s->limit = number("LIMIT", s->total);
  s->context = number("CONTEXT", 0);
  s->grows[CUBLAS] = number("CUBLAS", 0);
  s->grows[CUBLASLT] = number("CUBLASLT", 0);
  s->grows[CUDNN] = number("CUDNN", 0);
  s->grows[CUSOLVER] = number("CUSOLVER", 0);
  s->grows[CUFFT] = number("CUFFT", 0);
  s->copy_limit = number("COPY", 1 << 20);
  s->shared_per_sm = number("SHARED_PER_SM", 167936);
  s->shared_optin = number("SHARED_OPTIN", 166912);
  s->sms = (int)number("SMS", 108);
  s->threads_per_sm = (int)number("THREADS_PER_SM", 2048);
  s->l2 = (int)number("L2", 40 << 20);
  s->clock = (int)number("CLOCK", 1410000);
  s->memory_clock = (int)number("MEMORY_CLOCK", 31859375);
  s->dispatch = number("DISPATCH", 10000);
  s->launch = number("LAUNCH", 5000);
  s->kernel = number("KERNEL", 3000);
  s->queue = number("QUEUE", 1024);
  if (!s->queue) s->queue = 1;
  s->segment_alloc = number("SEGMENT_ALLOC", 300000);
  s->segment_free = number("SEGMENT_FREE", 300000);
  s->page_lock = number("PAGE_LOCK", 500);
  s->bus = number("BUS", 25000);
  if (!s->bus) s->bus = 1;
  s->log = (int)number("LOG", 0);
  s->devices = (int)number("DEVICES", 1);
  const char *cc = getenv("COOPSIM_PHANTOM_CC");
  if (!cc || sscanf(cc, "%d.%d", &s->major, &s->minor) != 2) s->major = 8, s->minor = 0;
  const char *name = getenv("COOPSIM_PHANTOM_NAME");
  snprintf(s->name, sizeof s->name, "%s", name && *name ? name : "NVIDIA A100-SXM4-80GB");
}

const Settings *phantom_settings(void) {
  pthread_once(&once, read_settings);
  return &settings;
}
