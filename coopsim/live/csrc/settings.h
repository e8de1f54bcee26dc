// How ops compute at present (settings.py), as one number to compare.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <exception>

namespace coopsim {

// Does the processor take denormal numbers for zero?
inline bool flushes() {
  static volatile double tiny = 1e-310;
  return tiny * 1.0 == 0.0;
}

// As a template, so that PyTorch need not have all of them. on_cpu: of the ops on the CPU, too.
template <class Context>
int64_t settings_of(Context& c, bool on_cpu) {
  int64_t found = static_cast<int64_t>(c10::typeMetaToScalarType(c10::get_default_dtype()));
  const auto add = [&found](auto value) { found = found * 31 + static_cast<int64_t>(value); };
  add(c.userEnabledCuDNN());
  add(c.benchmarkCuDNN());
  add(c.deterministicCuDNN());
  add(c.userEnabledMkldnn());
  add(c.deterministicAlgorithms());
  add(c.deterministicAlgorithmsWarnOnly());
  add(c.allowFP16ReductionCuBLAS());
  add(c.allowBF16ReductionCuBLAS());
  add(c.deterministicFillUninitializedMemory());
  add(c.linalgPreferredBackend());
  add(c.blasPreferredBackend());
  add(c.allowFP16BF16ReductionMathSDP());
  add(c.userEnabledFlashSDP());
  add(c.userEnabledMemEfficientSDP());
  add(c.userEnabledMathSDP());
  add(c.userEnabledCuDNNSDP());
  if (on_cpu) {
    add(at::get_num_threads());
    add(flushes());
  }
  if constexpr (requires { c.deterministicMkldnn(); }) add(c.deterministicMkldnn());
  if constexpr (requires { c.allowFP16AccumulationCuBLAS(); }) add(c.allowFP16AccumulationCuBLAS());
  try {
    add(c.float32MatmulPrecision());
    add(c.allowTF32CuDNN());
  } catch (const std::exception&) {  // the precision was set in both of PyTorch's ways, of which this is the older
    add(-1);
  }
  return found;
}

inline int64_t settings(bool on_cpu) { return settings_of(at::globalContext(), on_cpu); }

}  // namespace coopsim
