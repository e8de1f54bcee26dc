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

template <class See>
void each(const IValue& value, c10::DeviceType kind, const See& see) {
  if (value.isTensor()) {
    if (counts(value.toTensor(), kind)) see(value.toTensor());
  } else if (value.isList()) {
    for (const IValue& one : value.toListRef()) each(one, kind, see);
  }
}

// Of the `n` values on top of the stack: has a tensor more elements than these?
inline bool outgrows(const Stack& stack, size_t n, c10::ArrayRef<int32_t> positions, c10::DeviceType kind,
                     c10::ArrayRef<int64_t> elements) {
  const IValue* first = stack.data() + (stack.size() - n);
  auto most = elements.begin();
  bool more = false;
  const auto see = [&](const at::Tensor& tensor) { more |= most != elements.end() && tensor.numel() > *most++; };
  for (const int32_t i : positions) each(first[i], kind, see);
  return more;
}

// On top of the stack are `n` values, of which those at `positions` may be tensors.
inline Found top(const Stack& stack, size_t n, c10::ArrayRef<int32_t> positions, c10::DeviceType kind) {
  Found found;
  const IValue* first = stack.data() + (stack.size() - n);
  const auto see = [&](const at::Tensor& tensor) { found.push_back(tensor.storage().unsafeGetStorageImpl()); };
  for (const int32_t i : positions) each(first[i], kind, see);
  return found;
}

}  // namespace coopsim
