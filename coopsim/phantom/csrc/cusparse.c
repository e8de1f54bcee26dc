/* cuSPARSE: sparse matrices, which know their sizes. A product has no elements: how many depends on data. */
#include "answers.h"

typedef struct { int64_t rows, columns, nnz; } Matrix;

int cusparseCreate(void **handle) { return new_handle(handle); }

static int create(Matrix **out, int64_t rows, int64_t columns, int64_t nnz) {
  *out = malloc(sizeof **out);
  if (!*out) return 2;
  **out = (Matrix){rows, columns, nnz};
  return SUCCESS;
}
/* Their other parameters are where the elements lie, and of which types. */
#define CREATE(name)                                                                                                 \
  int cusparseCreate##name(Matrix **out, int64_t rows, int64_t columns, int64_t nnz) {                               \
    return create(out, rows, columns, nnz);                                                                          \
  }
CREATE(Csr)
CREATE(ConstCsr)
CREATE(Csc)
CREATE(ConstCsc)
CREATE(Coo)
CREATE(ConstCoo)
CREATE(Bsr)
CREATE(ConstBsr)
CREATE(SlicedEll)
CREATE(ConstSlicedEll)
/* Blocked-ELL has a block size there, not a number of elements. */
int cusparseCreateBlockedEll(Matrix **out, int64_t rows, int64_t columns) { return create(out, rows, columns, 0); }
int cusparseCreateConstBlockedEll(Matrix **out, int64_t rows, int64_t columns) { return create(out, rows, columns, 0); }
int cusparseDestroySpMat(Matrix *m) { free(m); return SUCCESS; }

int cusparseSpMatGetSize(const Matrix *m, int64_t *rows, int64_t *columns, int64_t *nnz) {
  *rows = m->rows;
  *columns = m->columns;
  *nnz = m->nnz;
  return SUCCESS;
}
