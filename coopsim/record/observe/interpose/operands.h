// Visits the device's tensors among an op's arguments or results, and sums up their bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <algorithm>

#include "schemas.h"

namespace coopsim {

using torch::jit::Stack;
using Values = c10::ArrayRef<IValue>;

// Calls `see` with a tensor of the device, or with the tensors that a sparse one consists of (effects.py: _parts).
template <typename See>
void each_part(const at::Tensor& tensor, const See& see) {
  if (tensor.device().type() != c10::DeviceType::CUDA || tensor.key_set().has(c10::DispatchKey::Python)) return;
  const auto layout = tensor.layout();
  if (layout == at::kStrided) return see(tensor);
  if (layout == at::kSparse) {
    see(tensor._indices());
    see(tensor._values());
  } else if (layout == at::kSparseCsr || layout == at::kSparseBsr) {
    see(tensor.crow_indices());
    see(tensor.col_indices());
    see(tensor.values());
  } else if (layout == at::kSparseCsc || layout == at::kSparseBsc) {
    see(tensor.ccol_indices());
    see(tensor.row_indices());
    see(tensor.values());
  }
}

// Calls `see` with every tensor in a value, those of other devices included.
template <typename See>
void each_tensor(const IValue& value, const See& see) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) see(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) see(tensor);
  } else if (value.isList()) {
    for (const IValue& one : value.toListRef()) each_tensor(one, see);
  }
}

// Calls `see` with the device's tensors in a value, and with the parts of sparse ones.
template <typename See>
void each_on_device(const IValue& value, const See& see) {
  each_tensor(value, [&](const at::Tensor& tensor) { each_part(tensor, see); });
}

inline int64_t bytes_of(const at::Tensor& tensor) {
  const auto all = static_cast<int64_t>(tensor.storage().nbytes());
  return std::min(tensor.numel() * static_cast<int64_t>(tensor.itemsize()), all);
}

inline int64_t bytes_in(const IValue& value) {
  int64_t sum = 0;
  each_on_device(value, [&](const at::Tensor& tensor) { sum += bytes_of(tensor); });
  return sum;
}

// Whether images or volumes are laid out channels-last, and not in the common way, too (calls.py).
inline bool is_channels_last(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || (tensor.dim() != 4 && tensor.dim() != 5) || tensor.is_contiguous()) return false;
  return tensor.is_contiguous(tensor.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d);
}

// A hash of what the time of a call depends on: the op, types, sizes, layouts, bytes, integers and flags, and settings.
class Signature {
 public:
  void add(const IValue& value) {
    mix(static_cast<uint64_t>(value.isNone() ? 1 : value.isTensor() ? 2 : value.isList() ? 3 : 4));
    if (value.isTensor()) add(value.toTensor());
    else if (value.isInt()) mix(static_cast<uint64_t>(value.toInt()));
    else if (value.isBool()) mix(value.toBool());
    else if (value.isList()) {
      mix(value.toListRef().size());
      for (const IValue& one : value.toListRef()) add(one);
    }
  }
  uint64_t value() const { return hash_ | 1; }  // never 0
  Signature(const Schema& schema, uint64_t settings) {
    mix(static_cast<uint64_t>(schema.number));
    mix(settings);
  }

 private:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    mix(static_cast<uint64_t>(tensor.dim()) + (tensor.is_cuda() ? 8 : 72));
    mix(static_cast<uint64_t>(tensor.scalar_type()));
    mix(is_channels_last(tensor));
    if (tensor.has_storage()) mix(static_cast<uint64_t>(bytes_of(tensor)));
    for (const int64_t size : tensor.sizes()) mix(static_cast<uint64_t>(size));
  }
  void mix(uint64_t part) {
    hash_ = (hash_ ^ (part + 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;
    hash_ ^= hash_ >> 32;
  }
  uint64_t hash_ = 0x2545f4914f6cdd1dull;
};

}  // namespace coopsim
