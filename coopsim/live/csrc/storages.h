// Storages without memory, as residency.py makes them, and tensors on storages.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "swap.h"

namespace coopsim {

using StoragePtr = c10::intrusive_ptr<StorageImpl>;

// Keys of dispatch modes.
inline const c10::DispatchKeySet modes({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

// Ops that are called meanwhile go to their kernels: no dispatch mode, no autograd, no autocast.
class Below {
  at::AutoDispatchBelowAutograd autograd_;
  c10::impl::ExcludeDispatchKeyGuard rest_{
      c10::autocast_dispatch_keyset | modes};
};

inline bool hollow(StorageImpl* storage) {
  return storage->nbytes() > 0 && storage->_mutable_data_ptr_no_checks().get() == nullptr;
}

// Give back a storage's memory. It keeps its identity and size; reading it raises an error with this text. `swap` gives it
// memory again.
inline void empty(StorageImpl* storage, const std::string& error) {
  storage->set_resizable(false);
  storage->set_allocator(nullptr);
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(error);
}

inline at::Tensor tensor_on(StoragePtr storage, caffe2::TypeMeta dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                            int64_t offset) {
  const auto key = storage->device_type() == c10::DeviceType::CUDA ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(key), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

inline StoragePtr pointer_to(const at::Tensor& tensor) {
  return StoragePtr::reclaim_copy(tensor.storage().unsafeGetStorageImpl());
}

inline StoragePtr copy_of(const StoragePtr& storage) {
  const Below below;
  const auto nbytes = static_cast<int64_t>(storage->nbytes());
  const at::Tensor bytes = tensor_on(storage, caffe2::TypeMeta::Make<uint8_t>(), {nbytes}, {1}, 0);
  const at::Tensor copied = bytes.clone();
  return pointer_to(copied);
}

}  // namespace coopsim
