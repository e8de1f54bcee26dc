// A kernel that every op of a thread passes on its way to the device's: below autograd and autocast, and below dispatch
// modes and subclasses of tensors. It hands the op to watchers, the last one entered first.
//
// It is the fallback of a dispatch key that no tensor has and no other library serves, and that `include` adds to the
// keys of a thread, from where autograd's threads inherit it. No dispatch mode is active, which autograd's formulas
// would take for a reason to work out of place.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "watchers.h"

namespace coopsim {
namespace {

static_assert(KEY < c10::DispatchKey::Python, "until PyTorch 2.12 this key was above dispatch modes");

// Is it made of other ops, which come here one by one? So it is in inference mode, where autograd does not do that.
bool is_composite(const OperatorHandle& op, c10::DispatchKeySet keys) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(keys.highestPriorityTypeId());
}

void interpose(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY);
  const int left = watchers_left();
  // Tensors without data stand for others, as while a program is compiled.
  if (left && !keys.has_backend(c10::BackendComponent::MetaBit)) {
    if (is_composite(op, below)) return op.redispatchBoxed(below, stack);
    return ask(left, op, below, stack);
  }
  c10::impl::ExcludeDispatchKeyGuard unseen(KEY);
  op.redispatchBoxed(below, stack);
}

}  // namespace
}  // namespace coopsim

TORCH_LIBRARY_IMPL(_, Fake, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&coopsim::interpose>()); }

// What library.py calls.
extern "C" {
using namespace coopsim;

// On this thread, and on those that inherit from it.
void coopsim_include(int on) { c10::impl::tls_set_dispatch_key_included(KEY, on); }
// While 1, ops of this thread are not seen. Gives what it was.
int coopsim_exclude(int on) {
  const bool was = c10::impl::tls_is_dispatch_key_excluded(KEY);
  c10::impl::tls_set_dispatch_key_excluded(KEY, on);
  return was;
}
// The dispatch mode on top of this thread's stack watches from now on. 0: there is no room for more watchers.
int coopsim_enter() { return enter_mode_on_top(); }
void coopsim_leave() { leave(); }
}
