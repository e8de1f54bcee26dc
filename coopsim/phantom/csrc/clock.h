/* The clock (clock.c), for those who work, wait and ask. Times are ns since the process began to use the card. */
#ifndef COOPSIM_PHANTOM_CLOCK_H
#define COOPSIM_PHANTOM_CLOCK_H

#include "phantom.h"

uint64_t phantom_now(void);
void phantom_host(uint64_t ns);               /* the host is busy */
void phantom_page_lock(size_t bytes);          /* the same: it pins memory of its own */
void phantom_host_until(uint64_t time);       /* the host waits */
void phantom_device_wait(void);               /* for all streams */
void phantom_work(void *stream, uint64_t ns); /* the stream is given something to do */
void phantom_launch(void *stream);            /* the same: a kernel, of which nothing is known yet */
void phantom_known_work(void *stream, uint64_t ns);  /* the same: a copy, a fill or a sleep, of so long */
uint64_t phantom_stream_end(void *stream);    /* when it will have done all that it was given */
uint64_t phantom_stream_mark(void *stream);   /* the same, of an event that is recorded there */
void phantom_stream_wait(void *stream, uint64_t time);
Status phantom_ask(const void *what, uint64_t time, const void *caller);  /* is it past that time? */

#endif
