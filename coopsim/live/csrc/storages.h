// Storages without memory, as residency.py makes them, swapping that of two, and tensors on storages.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

namespace coopsim {

using c10::StorageImpl;
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

// Swap the memory of two storages, also before PyTorch 2.12, where storages have no such function.
//
// What raises the error of reading a storage. Before PyTorch 2.12 it can be set and not be cleared, so its name is
// taken here, as an explicit instantiation may take the names of private members.
struct Throws {
  using Member = bool StorageImpl::*;
  friend Member member_of(Throws);
};
template <typename Tag, typename Tag::Member M>
struct Take {
  friend typename Tag::Member member_of(Tag) { return M; }
};
template struct Take<Throws, &StorageImpl::throw_on_immutable_data_ptr_>;

template <typename Storage>
void swap(Storage* a, Storage* b) {
  if constexpr (requires { a->swap_data_ptr(*b); }) {
    a->swap_data_ptr(*b);
  } else {
    const auto nbytes = a->sym_nbytes();
    a->set_nbytes(b->sym_nbytes());
    b->set_nbytes(nbytes);
    auto* const allocator = a->allocator();
    a->set_allocator(b->allocator());
    b->set_allocator(allocator);
    const bool resizable = a->resizable();
    a->set_resizable(b->resizable());
    b->set_resizable(resizable);
    std::swap(a->*member_of(Throws()), b->*member_of(Throws()));
    auto data = std::move(a->_mutable_data_ptr_no_checks());
    a->set_data_ptr_noswap(std::move(b->_mutable_data_ptr_no_checks()));
    b->set_data_ptr_noswap(std::move(data));
  }
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
