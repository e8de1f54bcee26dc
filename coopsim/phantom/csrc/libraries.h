/* The libraries whose first use takes more of the card: kernels' code, and local memory for their stacks. */
#ifndef COOPSIM_PHANTOM_LIBRARIES_H
#define COOPSIM_PHANTOM_LIBRARIES_H

enum { CUBLAS, CUBLASLT, CUDNN, CUSOLVER, CUFFT, GROWING_LIBRARIES };
void coopsim_phantom_loaded(int library);  /* a library is used; of the runtime (memory.c) */

#endif
