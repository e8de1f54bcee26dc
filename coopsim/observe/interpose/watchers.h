// Who watches, in the order of entry, and how one of them is asked.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <array>
#include <atomic>
#include <memory>

namespace coopsim {

using c10::OperatorHandle;
using c10::impl::TorchDispatchModeTLS;
using torch::jit::Stack;

constexpr c10::DispatchKey KEY = c10::DispatchKey::Fake;
// The key and those above, but for the key of dispatch modes.
inline const auto above = (c10::DispatchKeySet(c10::DispatchKeySet::FULL) ^
                           c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY))
                              .remove(KEY)
                              .remove(c10::DispatchKey::Python);

using Mode = std::shared_ptr<c10::impl::PyObject_TorchDispatchMode>;

inline std::array<Mode, 8> watchers;
inline std::atomic<int> n_watchers{0};
inline thread_local int asked = -1;  // the watcher that runs on this thread; -1: none

// How many are to be asked of an op that is called here and now.
inline int watchers_left() { return asked < 0 ? n_watchers.load() : std::min(asked, n_watchers.load()); }

inline int enter_mode_on_top() {
  const int n = n_watchers;
  if (n == static_cast<int>(watchers.size())) return 0;
  watchers[static_cast<size_t>(n)] = TorchDispatchModeTLS::get_stack_at(TorchDispatchModeTLS::stack_len() - 1);
  n_watchers = n + 1;
  return 1;
}
inline void leave() { n_watchers--; }

// The mode alone is on the stack, as PyTorch calls modes.
class OnStack {
 public:
  explicit OnStack(const Mode& mode) : before_(TorchDispatchModeTLS::get_state()) {
    TorchDispatchModeTLS::set_state({});
    TorchDispatchModeTLS::push_non_infra_mode_onto_stack(mode);
  }
  ~OnStack() { TorchDispatchModeTLS::set_state(before_); }
  OnStack(const OnStack&) = delete;
  OnStack& operator=(const OnStack&) = delete;

 private:
  TorchDispatchModeTLS before_;
};

// What a watcher calls goes to the one before it; of the first, unseen to the kernels.
class Asked {
 public:
  explicit Asked(int watcher) : before_(asked) { asked = watcher; }
  ~Asked() { asked = before_; }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

 private:
  int before_;
};

inline c10::impl::LocalDispatchKeySet keys_inside(bool first) {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.excluded_ = (keys.excluded_ | above).remove(c10::DispatchKey::Python);
  if (first) keys.excluded_ = keys.excluded_.add(KEY);
  return keys;
}

inline void ask(int left, const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const Mode mode = watchers[static_cast<size_t>(left - 1)];
  const Asked one(left - 1);
  const c10::impl::ForceDispatchKeyGuard inside(keys_inside(left == 1));
  const OnStack on_stack(mode);
  mode->pyinterpreter()->dispatch(op, stack);
}

}  // namespace coopsim
