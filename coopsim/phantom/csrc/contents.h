/* The contents of device memory (contents.c), for those who write to it and read from it. */
#ifndef COOPSIM_PHANTOM_CONTENTS_H
#define COOPSIM_PHANTOM_CONTENTS_H

#include "phantom.h"

void phantom_wrote(const void *p, size_t n);      /* the host has written there */
int phantom_is_written(const void *p, size_t n);  /* has it, to any of these bytes? */
void phantom_clear(void *p, size_t n);            /* they read as zeros again */
/* Copy device memory to the host's; `blank` makes those of the host's bytes zero for which nothing was written. */
void phantom_read(void *to, const void *p, size_t n, void (*blank)(void *, size_t));

#endif
