/* cuFFT: plans, and the work area that they ask for.
 *
 * That is none where all sizes are powers of two up to 4096, of which 64 x 64 and 256 were measured on an H100. For
 * others it is batch * n complex elements: the least that cuFFT's guide names (the most is 8 times as much, for sizes
 * with large prime factors), and what arrayfire/arrayfire issue 1443 lists for transforms of 100 x 100 to 100 x 1500. */
#include "answers.h"

enum { COMPLEX_DOUBLE = 5, COMPLEX_HALF = 6, COMPLEX_BFLOAT = 14 };  /* cudaDataType */

static size_t element_bytes(int type) {
  return type == COMPLEX_DOUBLE ? 16 : type == COMPLEX_HALF || type == COMPLEX_BFLOAT ? 4 : 8;
}

int cufftXtGetSizeMany(UNUSED int plan, int rank, const long long *n, UNUSED const long long *in_embed,
                       UNUSED long long in_stride, UNUSED long long in_distance, UNUSED int in_type,
                       UNUSED const long long *out_embed, UNUSED long long out_stride, UNUSED long long out_distance,
                       UNUSED int out_type, long long batch, size_t *work, int type) {
  size_t elements = (size_t)batch;
  int simple = 1;
  for (int i = 0; i < rank; i++) {
    elements *= (size_t)n[i];
    simple &= n[i] <= 4096 && (n[i] & (n[i] - 1)) == 0;
  }
  *work = simple ? 0 : elements * element_bytes(type);
  return SUCCESS;
}

int cufftXtMakePlanMany(int plan, int rank, const long long *n, const long long *in_embed, long long in_stride,
                        long long in_distance, int in_type, const long long *out_embed, long long out_stride,
                        long long out_distance, int out_type, long long batch, size_t *work, int type) {
  coopsim_phantom_loaded(CUFFT);
  return cufftXtGetSizeMany(plan, rank, n, in_embed, in_stride, in_distance, in_type, out_embed, out_stride,
                            out_distance, out_type, batch, work, type);
}
