#include "answers.h"

enum { ALGORITHM_BYTES = 64, RESULT_BYTES = 64 + 8 + 4 + 4 + 16 };  /* sizeof cublasLtMatmulHeuristicResult_t */

/* One algorithm that asks for no workspace of its own. */
int cublasLtMatmulAlgoGetHeuristic(UNUSED void *handle, UNUSED void *desc, UNUSED void *a, UNUSED void *b,
                                   UNUSED void *c, UNUSED void *d, UNUSED void *preference, UNUSED int wanted,
                                   void *results, int *found) {
  memset(results, 0, RESULT_BYTES);
  *found = 1;
  return SUCCESS;
}

int cublasLtMatmul(void) { coopsim_phantom_loaded(CUBLASLT); return SUCCESS; }
