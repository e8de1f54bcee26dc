// All storages of the device, from when they are first seen to when their memory is freed (storages.py).
//
// A Python object of a storage would be a reference to it, because of which autograd would not accumulate gradients in
// place. So the end of a storage is known from the allocator; for memory of another allocator, from weak references.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace coopsim {

using c10::StorageImpl;
using WeakStorage = c10::weak_intrusive_ptr<StorageImpl>;

struct Entry {
  int64_t serial = 0, nbytes = 0, address = 0;
  int64_t resized = 0;  // its StorageImpl held another number of bytes before
  int64_t allocated = 0;  // the number of the allocation of its memory; 0: not known
  int64_t op = -1, module = -1;  // numbers of those that made it; -1: not known
  int64_t known = 0;  // bits of Known
};
enum Known : int64_t { TO_PYTHON = 1, VALUES = 2, TOUCHED = 4 };

// Read by Python directly. live, peak: bytes. most: maximum of `live`, sampled after each op; newest_at_most: the
// newest serial then. gone: how many serials gone_for_python has yet to return. allocations: how many there were.
struct Account {
  int64_t newest, live, peak, most, newest_at_most, gone, allocations;
};

class Ledger {
 public:
  Account account{};

  // Forget all storages, when another recorder begins. Serials continue, and the allocator's blocks remain known.
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    slots_.clear();
    by_address_.clear();
    foreign_.clear();
    gone_.clear();
    for_python_.clear();
    account = {account.newest, 0, 0, 0, 0, 0, account.allocations};
  }

  // Returns the storage of a tensor of the device, entering it at first sight; null if it has no bytes, or no memory, as
  // that of a wrapper subclass. Sets `fresh` if it was entered. A StorageImpl over the memory of another, as DLPack makes, counts as
  // that one while it is alive.
  Entry* of(const at::TensorImpl* tensor, bool* fresh = nullptr) {
    return tensor->has_storage() ? of(tensor->unsafe_storage().unsafeGetStorageImpl(), fresh) : nullptr;
  }

  Entry* of(StorageImpl* storage, bool* fresh = nullptr) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto nbytes = static_cast<int64_t>(storage->nbytes());
    auto found = slots_.find(storage);
    if (found != slots_.end() && found->second.storage.expired()) {  // another lives at its address now
      close(found->second);
      slots_.erase(found);
      found = slots_.end();
    }
    if (found == slots_.end()) {
      if (!nbytes || !storage->_mutable_data_ptr_no_checks().get()) return nullptr;
      auto strong = c10::intrusive_ptr<StorageImpl>::reclaim_copy(storage);
      found = slots_.emplace(storage, Slot{storage, WeakStorage(strong)}).first;
    }
    Slot& slot = found->second;
    if (slot.holds && slot.entry.nbytes == nbytes) return &slot.entry;
    if (!slot.holds && nbytes)
      if (Slot* other = holder_of(storage->_mutable_data_ptr_no_checks().get())) return &other->entry;
    const bool used = slot.used;
    close(slot);
    slot.used = true;
    if (!nbytes) return nullptr;
    open(slot, storage, nbytes, used);
    if (fresh) *fresh = true;
    return &slot.entry;
  }

  // To be called when the allocator allocates memory, and when it frees it.
  void taken(void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_[address] = ++account.allocations;
  }
  void given_back(void* address) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_.erase(address);
    const auto found = by_address_.find(address);
    if (found == by_address_.end()) return;
    Slot& slot = *found->second;
    close(slot);
    if (slot.storage.expired()) slots_.erase(slot.key);
  }

  // Clears the bit TOUCHED of all storages.
  void untouch() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [_, slot] : slots_) slot.entry.known &= ~TOUCHED;
  }

  // Updates the maximum of live bytes; to be called after each op.
  void look_at_peak() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (account.live <= account.most) return;
    sweep();
    if (account.live <= account.most) return;
    account.most = account.live;
    account.newest_at_most = account.newest;
    gone_.clear();
  }

  // Returns the storages that are alive, in order of appearance, setting the bits `known` of each.
  std::vector<Entry> alive(int64_t known = 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sweep();
    std::vector<Entry> found;
    for (auto it = slots_.begin(); it != slots_.end();) {
      Slot& slot = it->second;
      if (slot.holds) {
        slot.entry.known |= known;
        found.push_back(slot.entry);
      }
      it = !slot.holds && slot.storage.expired() ? slots_.erase(it) : std::next(it);
    }
    std::sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) { return a.serial < b.serial; });
    return found;
  }

  // Returns the storages that were alive at the maximum of live bytes (`most`).
  std::vector<Entry> at_most() {
    std::vector<Entry> found = alive();
    const std::lock_guard<std::mutex> lock(mutex_);
    found.insert(found.end(), gone_.begin(), gone_.end());
    const int64_t newest = account.newest_at_most;
    found.erase(std::remove_if(found.begin(), found.end(), [&](const Entry& e) { return e.serial > newest; }), found.end());
    return found;
  }

  // Writes at most `room` serials of storages known to Python that were freed and not returned yet, in order; returns
  // how many.
  int64_t gone_for_python(int64_t* out, int64_t room) {
    const std::lock_guard<std::mutex> lock(mutex_);
    sweep();
    const int64_t n = std::min(room, static_cast<int64_t>(for_python_.size()));
    std::copy_n(for_python_.begin(), n, out);
    for_python_.erase(for_python_.begin(), for_python_.begin() + n);
    account.gone -= n;
    return n;
  }

 private:
  struct Slot {
    StorageImpl* key;
    WeakStorage storage;
    Entry entry{};
    bool holds = false, used = false;
  };

  // Returns the slot whose storage is alive and has its memory at an address; null if there is none.
  Slot* holder_of(void* address) {
    const auto found = address ? by_address_.find(address) : by_address_.end();
    if (found == by_address_.end() || !found->second->holds || found->second->storage.expired()) return nullptr;
    return found->second;
  }

  void open(Slot& slot, StorageImpl* storage, int64_t nbytes, bool resized) {
    void* address = storage->_mutable_data_ptr_no_checks().get();
    const auto before = by_address_.find(address);
    if (address && before != by_address_.end() && before->second != &slot) close(*before->second);
    const auto block = blocks_.find(address);
    const int64_t allocated = block == blocks_.end() ? 0 : block->second;
    slot.entry = {++account.newest, nbytes, reinterpret_cast<int64_t>(address), resized, allocated};
    slot.holds = true;
    account.live += nbytes;
    by_address_[address] = &slot;
    if (!allocated) foreign_.push_back(storage);
    if (account.live > account.peak) sweep();
    account.peak = std::max(account.peak, account.live);
  }

  void close(Slot& slot) {
    if (!slot.holds) return;
    slot.holds = false;
    account.live -= slot.entry.nbytes;
    const auto at = by_address_.find(reinterpret_cast<void*>(slot.entry.address));
    if (at != by_address_.end() && at->second == &slot) by_address_.erase(at);
    if (slot.entry.serial <= account.newest_at_most) gone_.push_back(slot.entry);
    if (!(slot.entry.known & TO_PYTHON)) return;
    for_python_.push_back(slot.entry.serial);
    account.gone++;
  }

  void sweep() {
    const auto ended = [&](StorageImpl* storage) {
      const auto found = slots_.find(storage);
      if (found == slots_.end() || !found->second.holds) return true;
      if (!found->second.storage.expired()) return false;
      close(found->second);
      slots_.erase(found);
      return true;
    };
    foreign_.erase(std::remove_if(foreign_.begin(), foreign_.end(), ended), foreign_.end());
  }

  std::mutex mutex_;
  std::unordered_map<StorageImpl*, Slot> slots_;  // of this type, because by_address_ points to its entries
  ska::flat_hash_map<void*, Slot*> by_address_;
  ska::flat_hash_map<void*, int64_t> blocks_;  // the allocator's, each with the number of its allocation
  std::vector<StorageImpl*> foreign_;
  std::vector<Entry> gone_;  // storages alive at the maximum that were freed since
  std::vector<int64_t> for_python_;
};

}  // namespace coopsim
