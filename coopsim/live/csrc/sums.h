// Gradients that meet are added up in place, as they are when nobody watches: observe/accumulation.py says when.
#pragma once

#include <c10/core/GradMode.h>

#include "operands.h"

extern "C" int PyGILState_Check(void);

namespace torch::autograd {
TORCH_API int get_current_graph_task_id();
}

namespace coopsim {

// References to a tensor that only autograd's buffer holds: the buffer's and the call's two. Python's own is one more.
constexpr uint32_t kSoleHolder = 3;

// How many references a Python object has to what it stands for: none before PyTorch 2.10, where that may own the object.
template <typename Slot>
uint32_t references_from(Slot* slot) {
  if constexpr (requires { slot->load_pyobj(); }) return slot->load_pyobj() != nullptr;
  else return slot->_unchecked_untagged_pyobj() != nullptr && !slot->owns_pyobj();
}

// Autograd's engine runs without Python's lock, so that whoever has it calls from Python.
inline bool adds_up(const OperatorHandle& op, const Stack& stack) {
  static const OperatorHandle add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  if (!(op == add) || torch::autograd::get_current_graph_task_id() == -1 || c10::GradMode::is_enabled()) return false;
  if (PyGILState_Check()) return false;
  const at::Tensor& total = stack[stack.size() - 3].toTensor();
  const at::Tensor& more = stack[stack.size() - 2].toTensor();
  if (total.layout() != at::kStrided || total.sizes() != more.sizes() || total.dtype() != more.dtype()) return false;
  if (!total.unsafeGetTensorImpl()->is_non_overlapping_and_dense()) return false;
  StorageImpl* storage = total.storage().unsafeGetStorageImpl();
  const uint32_t pythons = references_from(total.unsafeGetTensorImpl()->pyobj_slot());
  const uint32_t its = references_from(storage->pyobj_slot());
  return total.use_count() == kSoleHolder + pythons && total.storage().use_count() == 1 + its;
}

}  // namespace coopsim
