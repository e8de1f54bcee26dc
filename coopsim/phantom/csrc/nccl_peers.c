/* NCCL: messages between the processes of all ranks, as files of a folder that they share. */
#include "nccl.h"
#include <stdio.h>
#include <unistd.h>

enum { NAME = 96, PATH = 4096, LONGEST_WAIT_US = 5000 };

static const char *folder(void) {
  const char *name = getenv("COOPSIM_PHANTOM_PEERS");
  return name && *name ? name : NULL;
}

static void put(const char *name, const void *data, size_t n) {
  char part[PATH + 8], whole[PATH];
  snprintf(whole, sizeof whole, "%s/%s", folder(), name);
  snprintf(part, sizeof part, "%s.part", whole);
  FILE *f = fopen(part, "wb");
  if (!f || fwrite(data, 1, n, f) != n || fclose(f) || rename(part, whole)) { perror(part); abort(); }
}

static void take(const char *name, void *data, size_t n, int drop) {
  char whole[PATH];
  FILE *f;
  snprintf(whole, sizeof whole, "%s/%s", folder(), name);
  for (useconds_t us = 50; !(f = fopen(whole, "rb")); us = us < LONGEST_WAIT_US ? 2 * us : us) usleep(us);
  if (n && fread(data, 1, n, f) != n) { perror(whole); abort(); }
  fclose(f);
  if (drop) unlink(whole);
}

int nccl_exchanges(const Comm *c, size_t n) { return folder() && c->size > 1 && n * (size_t)c->size <= EXCHANGED; }

void nccl_exchange(Comm *c, const void *mine, size_t n, char *all) {
  char name[NAME];
  snprintf(name, sizeof name, "%016lx.%lu.%d", c->id, c->collectives, c->rank);
  put(name, mine, n);
  for (int r = 0; r < c->size; r++) {
    snprintf(name, sizeof name, "%016lx.%lu.%d", c->id, c->collectives, r);
    take(name, all + (size_t)r * n, n, 0);
  }
  if (c->collectives) {  /* who has written this one has read the last one */
    char old[PATH];
    snprintf(old, sizeof old, "%s/%016lx.%lu.%d", folder(), c->id, c->collectives - 1, c->rank);
    unlink(old);
  }
  c->collectives++;
}

void nccl_send(Comm *c, int to, const void *data, size_t n) {
  char name[NAME];
  if (!folder() || n > EXCHANGED) return;
  snprintf(name, sizeof name, "%016lx.%d-%d.%u", c->id, c->rank, to, c->sent[to]++);
  put(name, data, n);
}

void nccl_receive(Comm *c, int from, void *data, size_t n) {
  char name[NAME], message[EXCHANGED];
  if (!folder() || n > EXCHANGED) return;
  snprintf(name, sizeof name, "%016lx.%d-%d.%u", c->id, from, c->rank, c->got[from]++);
  take(name, message, n, 1);
  coopsim_phantom_copy(data, message, n);
}
