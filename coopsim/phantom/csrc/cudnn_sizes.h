/* How much memory cuDNN asks for, by the rules that cudnn_sizes.c states. */
#ifndef COOPSIM_PHANTOM_CUDNN_SIZES_H
#define COOPSIM_PHANTOM_CUDNN_SIZES_H

#include <stdint.h>

enum { FORWARD, DATA_GRADIENT, WEIGHT_GRADIENT };

/* A convolution of x (batch, channels, points) to y (batch, filters, results): points and results are products over the
 * spatial dimensions, as are taps, the size of the filter. `bytes` is that of an element, 0 where no rule is known. */
typedef struct {
  int kind, bytes, channels_last, strided, spatial;
  int64_t batch, channels, filters, points, results, taps, groups;
} Convolution;

typedef struct {
  int gates, bytes, directions, layers, packed;
  int64_t batch, steps, input, hidden, weights;  /* weights in bytes */
} Recurrence;

int64_t convolution_workspace(const Convolution *c, int64_t multiprocessors);
int64_t rnn_workspace(const Recurrence *r);
int64_t rnn_reserve(const Recurrence *r);

#endif
