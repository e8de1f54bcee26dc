// Whether float32 products use TF32, as the program has set it. The names of the settings have changed with PyTorch.
#pragma once

#include <ATen/Context.h>
#include <torch/csrc/api/include/torch/version.h>

namespace coopsim {

// Returns what decides it now (precision.py): a bit for cuDNN, and one each for matrix products, convolutions and RNNs.
inline uint64_t precision_settings() {
  const at::Context& context = at::globalContext();
  uint64_t bits = context.userEnabledCuDNN();
#if TORCH_VERSION_MINOR >= 10
  for (const at::Float32Op kind : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN})
    bits = bits << 1 | (context.float32Precision(at::Float32Backend::CUDA, kind) == at::Float32Precision::TF32);
#elif TORCH_VERSION_MINOR == 9
  for (const char* kind : {"matmul", "conv", "rnn"}) bits = bits << 1 | (context.float32Precision("cuda", kind) == "tf32");
#else
  bits = bits << 1 | context.allowTF32CuBLAS();
  bits = bits << 2 | (context.allowTF32CuDNN() ? 3 : 0);
#endif
  return bits;
}

}  // namespace coopsim
