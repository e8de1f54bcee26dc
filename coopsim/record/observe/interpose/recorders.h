// The recorders, in the order of entry, and how an op is passed through them.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <array>
#include <atomic>
#include <memory>

#include "modes.h"
#include "native.h"

namespace coopsim {

using c10::impl::TorchDispatchModeTLS;
using Mode = std::shared_ptr<c10::impl::PyObject_TorchDispatchMode>;

// The dispatch keys above KEY, without that of dispatch modes.
inline const auto above = (c10::DispatchKeySet(c10::DispatchKeySet::FULL) ^
                           c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY))
                              .remove(KEY)
                              .remove(c10::DispatchKey::Python);

struct Recorder {
  Mode mode;
  Native* native = nullptr;  // null: every op is for Python
  bool lifts = false;  // is it shown lift_fresh?
};

inline std::array<Recorder, 8> recorders;
inline std::atomic<int> n_recorders{0};
inline thread_local int asked = -1;  // the number of the recorder that runs on this thread; -1: none does

// Returns how many recorders are still to see an op that is called on this thread now.
inline int recorders_left() { return asked < 0 ? n_recorders.load() : std::min(asked, n_recorders.load()); }

inline int enter_mode_on_top(Native* native, bool lifts) {
  const int n = n_recorders;
  if (n == static_cast<int>(recorders.size())) return 0;
  recorders[static_cast<size_t>(n)] = {TorchDispatchModeTLS::get_stack_at(TorchDispatchModeTLS::stack_len() - 1), native, lifts};
  n_recorders = n + 1;
  return 1;
}
inline void leave() { n_recorders--; }

// While alive, ops of this thread go to the recorders before this one.
class Asked {
 public:
  explicit Asked(int recorder) : before_(asked) { asked = recorder; }
  ~Asked() { asked = before_; }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

 private:
  int before_;
};

// While alive, `mode` is the only one on this thread's stack of modes.
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

inline c10::impl::LocalDispatchKeySet keys_for_python(bool last) {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.excluded_ = (keys.excluded_ | above).remove(c10::DispatchKey::Python);
  if (last) keys.excluded_ = keys.excluded_.add(KEY);
  return keys;
}

// Passes an op to the recorders, of which `left` have yet to see it. The last one's call reaches the device's kernel.
inline void ask(int left, const Schema& schema, c10::DispatchKeySet below, Stack* stack) {
  if (!left) {
    const c10::impl::ExcludeDispatchKeyGuard unseen(KEY);
    return schema.op.redispatchBoxed(below, stack);
  }
  const Recorder& recorder = recorders[static_cast<size_t>(left - 1)];
  const Asked one(left - 1);
  if (schema.views && !recorder.lifts) return ask(left - 1, schema, below, stack);
  const auto to_python = [&] {
    const Mode mode = recorder.mode;
    const c10::impl::ForceDispatchKeyGuard inside(keys_for_python(left == 1));
    const OnStack on_stack(mode);
    python()->dispatch(schema.op, stack);
  };
  if (!recorder.native) return to_python();
  Watched(*recorder.native, schema, *stack).run([&] { ask(left - 1, schema, below, stack); }, to_python);
}

}  // namespace coopsim
