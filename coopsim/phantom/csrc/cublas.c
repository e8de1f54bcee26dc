/* cuBLAS: handles, modes, and copies between host and device. */
#include "answers.h"

extern void coopsim_phantom_copy(void *to, const void *from, size_t n);

int cublasCreate_v2(void **handle) { coopsim_phantom_loaded(CUBLAS); return new_handle(handle); }
int cublasGetPointerMode_v2(UNUSED void *handle, int *mode) { *mode = 0; return SUCCESS; }
int cublasGetMathMode(UNUSED void *handle, int *mode) { *mode = 0; return SUCCESS; }

/* Vectors with strides, matrices with leading dimensions: `n` runs of `bytes`, so many bytes apart. */
static int runs(long n, size_t bytes, const char *from, size_t from_step, char *to, size_t to_step) {
  for (long i = 0; i < n; i++) coopsim_phantom_copy(to + (size_t)i * to_step, from + (size_t)i * from_step, bytes);
  return SUCCESS;
}
#define VECTOR(name)                                                                                                 \
  int cublas##name##Vector(int n, int size, const void *x, int x_step, void *y, int y_step) {                        \
    return runs(n, (size_t)size, x, (size_t)x_step * (size_t)size, y, (size_t)y_step * (size_t)size);              \
  }                                                                                                                  \
  int cublas##name##VectorAsync(int n, int size, const void *x, int x_step, void *y, int y_step, UNUSED void *s) {   \
    return cublas##name##Vector(n, size, x, x_step, y, y_step);                                                      \
  }
#define MATRIX(name)                                                                                                 \
  int cublas##name##Matrix(int rows, int columns, int size, const void *a, int lda, void *b, int ldb) {              \
    size_t bytes = (size_t)rows * (size_t)size;                                                                      \
    return runs(columns, bytes, a, (size_t)lda * (size_t)size, b, (size_t)ldb * (size_t)size);                     \
  }                                                                                                                  \
  int cublas##name##MatrixAsync(int rows, int columns, int size, const void *a, int lda, void *b, int ldb,           \
                                UNUSED void *s) {                                                                    \
    return cublas##name##Matrix(rows, columns, size, a, lda, b, ldb);                                                \
  }
VECTOR(Set)
VECTOR(Get)
MATRIX(Set)
MATRIX(Get)
