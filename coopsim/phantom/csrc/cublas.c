#include "answers.h"

int cublasCreate_v2(void **handle) { return new_handle(handle); }
int cublasGetPointerMode_v2(UNUSED void *handle, int *mode) { *mode = 0; return SUCCESS; }
int cublasGetMathMode(UNUSED void *handle, int *mode) { *mode = 0; return SUCCESS; }
