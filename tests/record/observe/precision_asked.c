/* Notes what PyTorch asks of cuBLAS and cuDNN; to be loaded before them. */
#include <dlfcn.h>

int math_mode = -1, rnn_math = -1;

int cublasSetMathMode(void *handle, int mode) {
  math_mode = mode;
  return 0;
}

typedef int Rnn(void *, int, int, int, int, int, int, int, int, int, int, int, int, void *, unsigned);

int cudnnSetRNNDescriptor_v8(void *rnn, int algorithm, int cell, int bias, int direction, int input, int type,
                             int precision, int math, int in, int hidden, int out, int layers, void *dropout,
                             unsigned flags) {
  Rnn *set = (Rnn *)dlsym(dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD), "cudnnSetRNNDescriptor_v8");
  rnn_math = math;
  return set(rnn, algorithm, cell, bias, direction, input, type, precision, math, in, hidden, out, layers, dropout, flags);
}
