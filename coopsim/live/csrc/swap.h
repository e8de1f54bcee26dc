// Swaps the memory of two storages, also before PyTorch 2.12, where storages have no such function.
#pragma once

#include <c10/core/StorageImpl.h>

#include <utility>

namespace coopsim {

using c10::StorageImpl;

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

}  // namespace coopsim
