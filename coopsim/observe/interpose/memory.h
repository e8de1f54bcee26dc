// The allocator tells what it hands out and gets back, through the table of functions that PyTorch has for sanitizers.
#pragma once

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>

#include "ledger.h"

namespace c10::impl {

// All but the functions of interest; delegates.h is made from PyTorch's header.
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

// From here on, and for good. Whoever was told before is told no more.
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
