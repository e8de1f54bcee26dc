// Follows the allocator's allocations and frees by the hooks that PyTorch has for sanitizers (c10::impl::GPUTrace).
#pragma once

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>

#include "ledger.h"

namespace c10::impl {

// Delegates all functions but those of interest; delegates.h is generated from PyTorch's header (library.py).
struct CoopsimDelegating : PyInterpreterVTable {
  const PyInterpreterVTable* real = nullptr;
#include "delegates.h"
};

}  // namespace c10::impl

namespace coopsim {

struct Told final : c10::impl::CoopsimDelegating {
  Ledger* ledger = nullptr;
  void trace_gpu_memory_allocation(c10::DeviceType, uintptr_t address) const override {
    ledger->taken(reinterpret_cast<void*>(address));
  }
  void trace_gpu_memory_deallocation(c10::DeviceType, uintptr_t address) const override {
    ledger->given_back(reinterpret_cast<void*>(address));
  }
};

// Report allocations and frees to `ledger` from now on. This cannot be undone, and replaces an earlier ledger.
inline void tell(Ledger& ledger, const c10::impl::PyInterpreterVTable* real) {
  static auto* told = new Told();
  static auto* interpreter = new c10::impl::PyInterpreter(told);
  told->real = real;
  told->ledger = &ledger;
  c10::impl::GPUTrace::set_trace(interpreter);
  c10::impl::GPUTrace::gpuTraceState = interpreter;
  c10::impl::GPUTrace::haveState = true;
}

}  // namespace coopsim
