/* For the maths libraries: the few functions that must answer something. All their other functions are stubs that
 * return 0, which is success in every one of these libraries. */
#ifndef COOPSIM_PHANTOM_ANSWERS_H
#define COOPSIM_PHANTOM_ANSWERS_H

#include "libraries.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))
#define SUCCESS 0

/* Each library is loaded on its own, so each has handles and settings of its own. */
UNUSED static int new_handle(void **out) {
  static uintptr_t last = 0x5000;
  *out = (void *)__atomic_add_fetch(&last, 0x10, __ATOMIC_RELAXED);
  return SUCCESS;
}

UNUSED static size_t setting_or(const char *name, size_t otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

UNUSED static size_t setting(const char *name) { return setting_or(name, 0); }

/* Whether workspaces have the sizes that measurements suggest; otherwise they are 0. */
UNUSED static int workspaces_by_rule(void) { return setting("COOPSIM_PHANTOM_WORKSPACES") != 0; }

/* What is given of a workspace of so many bytes: 0 where workspaces are left out, and then the largest is remembered. */
extern int64_t coopsim_phantom_left_out;
UNUSED static int64_t asked_for(int64_t bytes) {
  if (workspaces_by_rule()) return bytes;
  if (bytes > coopsim_phantom_left_out) coopsim_phantom_left_out = bytes;
  return 0;
}

#endif
