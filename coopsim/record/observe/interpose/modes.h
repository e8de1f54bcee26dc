// How ops pass the program's own dispatch modes and tensor subclasses where KEY is above them, before PyTorch 2.12.
//
// There an op reaches the kernel before a mode or a subclass has seen it, and the ops that these call in turn would not
// reach it: PyTorch excludes all keys above that of modes for them. So the kernel lets such an op pass, and the table of
// functions by which PyTorch calls Python is replaced by one that sends their ops to the kernel again.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>

#include "schemas.h"

namespace c10::impl {

// Delegates all functions but `dispatch`; delegates_but_dispatch.h is generated from PyTorch's header (library.py).
struct CoopsimPassing : PyInterpreterVTable {
  const PyInterpreterVTable* real = nullptr;
#include "delegates_but_dispatch.h"
};

}  // namespace c10::impl

namespace coopsim {

constexpr c10::DispatchKey KEY = c10::DispatchKey::Fake;
constexpr bool ABOVE_MODES = KEY > c10::DispatchKey::Python;

inline thread_local bool passes = false;  // whether an op that reached the kernel is on its way to a mode

class Passes {
 public:
  explicit Passes(bool now) : before_(passes) { passes = now; }
  ~Passes() { passes = before_; }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

 private:
  bool before_;
};

struct Passing final : c10::impl::CoopsimPassing {
  void dispatch(const OperatorHandle& op, torch::jit::Stack* stack) const override {
    if (!passes) return real->dispatch(op, stack);
    const Passes done(false);
    auto keys = c10::impl::tls_local_dispatch_key_set();
    keys.excluded_ = keys.excluded_.remove(KEY);
    const c10::impl::ForceDispatchKeyGuard seen(keys);
    real->dispatch(op, stack);
  }
};

// Returns whether a dispatch mode or a tensor subclass is to see an op first; if so, has let it.
inline bool pass_modes(const OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack* stack) {
  if (!ABOVE_MODES || !below.has(c10::DispatchKey::Python)) return false;
  const Passes on(true);
  op.redispatchBoxed(below, stack);
  return true;
}

inline const c10::impl::PyInterpreterVTable*& python() {
  static const c10::impl::PyInterpreterVTable* real = nullptr;
  return real;
}

// Notes PyTorch's table of functions, and replaces it where ops pass modes. It stays: other threads may be inside.
inline void pass_by(c10::impl::PyInterpreter& interpreter) {
  if (python()) return;
  python() = interpreter.vtable_;
  if (!ABOVE_MODES) return;
  static auto* table = new Passing();
  table->real = python();
  interpreter.vtable_ = table;
}

}  // namespace coopsim
