/* Host memory that the runtime hands out (host.c). */
#ifndef COOPSIM_PHANTOM_HOST_H
#define COOPSIM_PHANTOM_HOST_H

#include "phantom.h"

int phantom_is_pinned(const void *p);
int phantom_is_managed(const void *p);
void phantom_blank(void *p, size_t n);  /* make the host's memory zero, without taking any for it */
Status phantom_free_managed(void *p);

#endif
