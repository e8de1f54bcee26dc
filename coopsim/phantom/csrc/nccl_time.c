/* NCCL: what a collective takes, as a time to begin, one for each step of a ring, and its bytes at a link's speed.
 *
 * A ring of n ranks moves (n-1)/n of the bytes past each rank in n-1 steps for a gather or a scatter, and twice that to
 * reduce to all (NVIDIA/nccl-tests, PERFORMANCE.md). Times to begin and of a step are those with which NCCL 2.18 and
 * later choose an algorithm, for a ring and the protocol of large messages (its src/graph/tuning.cc), in ns.
 * Ranks of a communicator that is no larger than a machine are taken to be on one; steps from one machine to the next
 * go through the network, and all cards of a machine share their network cards. Set by the card's profile:
 *
 *   COOPSIM_PHANTOM_LINK        between cards of a machine, bytes in a microsecond, as NCCL reaches it
 *   COOPSIM_PHANTOM_LINK_STEP   a step there, ns
 *   COOPSIM_PHANTOM_NETWORK     of each card's network card, bytes in a microsecond
 *   COOPSIM_PHANTOM_PER_NODE    cards of a machine
 */
#include "nccl.h"

enum { BEGIN_NS = 8400, NETWORK_STEP_NS = 14000, ONE_WAY = 1, BOTH_WAYS = 2 };

static double of(const char *name, double otherwise) {
  double value = (double)setting(name);
  return value > 0 ? value : otherwise;
}

void nccl_takes(const Comm *c, int kind, size_t bytes, void *stream) {
  static double link, link_step, network;
  static int per_node;
  if (c->size < 2) { coopsim_phantom_nccl_work(stream, BEGIN_NS, bytes, c->size); return; }
  if (!per_node) {
    link = of("COOPSIM_PHANTOM_LINK", 240000);
    link_step = of("COOPSIM_PHANTOM_LINK_STEP", 3400);
    network = of("COOPSIM_PHANTOM_NETWORK", 20000);
    per_node = (int)of("COOPSIM_PHANTOM_PER_NODE", 8);
  }
  int within = c->size <= per_node, ways = kind == ALL_REDUCE ? BOTH_WAYS : ONE_WAY;
  int steps = kind == ONE_TO_ONE ? 1 : c->size - 1, between = within ? 0 : kind == ONE_TO_ONE ? 1 : (c->size - 1) / per_node;
  double shared = network * (kind == ONE_TO_ONE ? 1 : per_node);
  double speed = within || link < shared ? link : shared;
  double part = kind == ONE_TO_ALL || kind == ONE_TO_ONE ? 1 : (double)steps / c->size;
  double ns = BEGIN_NS + ways * ((steps - between) * link_step + between * (double)NETWORK_STEP_NS + part * (double)bytes * 1000 / speed);
  coopsim_phantom_nccl_work(stream, (uint64_t)ns, bytes, c->size);
}
