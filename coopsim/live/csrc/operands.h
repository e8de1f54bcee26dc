// The tensors among an op's arguments or results, in the order in which the op log has them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>

#include <vector>

#include "storages.h"

namespace coopsim {

using c10::IValue;
using c10::OperatorHandle;
using torch::jit::Stack;
using Found = c10::SmallVector<StorageImpl*, 16>;

// Positions of the arguments, or results, that tensors can be in.
inline std::vector<int32_t> tensors_of(const std::vector<c10::Argument>& arguments) {
  std::vector<int32_t> found;
  for (size_t i = 0; i < arguments.size(); i++) {
    c10::TypePtr type = arguments[i].type();
    while (type->kind() == c10::TypeKind::OptionalType || type->kind() == c10::TypeKind::ListType)
      type = type->containedType(0);
    if (type->kind() == c10::TypeKind::TensorType) found.push_back(static_cast<int32_t>(i));
  }
  return found;
}

// Does the op log have it? Of numbers that PyTorch made tensors of, Python sees the numbers.
inline bool counts(const at::Tensor& tensor, c10::DeviceType kind) {
  return tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.device().type() == kind &&
         tensor.layout() == at::kStrided;
}

inline void collect(const IValue& value, c10::DeviceType kind, Found& found) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (counts(tensor, kind)) found.push_back(tensor.storage().unsafeGetStorageImpl());
  } else if (value.isList()) {
    for (const IValue& one : value.toListRef()) collect(one, kind, found);
  }
}

inline void count(const IValue& value, c10::DeviceType kind, c10::SmallVector<int64_t, 16>& found) {
  if (value.isTensor()) {
    if (counts(value.toTensor(), kind)) found.push_back(value.toTensor().numel());
  } else if (value.isList()) {
    for (const IValue& one : value.toListRef()) count(one, kind, found);
  }
}

// Of the `n` values on top of the stack: has a tensor more elements than these?
inline bool outgrows(const Stack& stack, size_t n, c10::ArrayRef<int32_t> positions, c10::DeviceType kind,
                     c10::ArrayRef<int64_t> elements) {
  c10::SmallVector<int64_t, 16> found;
  const IValue* first = stack.data() + (stack.size() - n);
  for (const int32_t i : positions) count(first[i], kind, found);
  for (size_t i = 0; i < std::min(found.size(), elements.size()); i++)
    if (found[i] > elements[i]) return true;
  return false;
}

// On top of the stack are `n` values, of which those at `positions` may be tensors.
inline Found top(const Stack& stack, size_t n, c10::ArrayRef<int32_t> positions, c10::DeviceType kind) {
  Found found;
  const IValue* first = stack.data() + (stack.size() - n);
  for (const int32_t i : positions) collect(first[i], kind, found);
  return found;
}

}  // namespace coopsim
