// The bytes of storages that observed ops have made and that are alive, on the CPU, where no allocator can be asked.
#pragma once

#include <c10/core/CPUAllocator.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <mutex>

#include "storages.h"

namespace coopsim {

// `others` are bytes that Python has counted; `most` is of both. Python reads and writes them. It is never deleted, as
// storages may outlive all else.
class Account {
 public:
  std::atomic<int64_t> others{0}, most{0}, live{0};

  // From here on it counts, until its memory is given back, whatever storage has it then. False: it is not PyTorch's
  // allocator's, or counts already.
  bool add(StorageImpl* storage) {
    at::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    if (!data.get() || data.get_context() != data.get() || !data.compare_exchange_deleter(theirs(), &give_back))
      return false;
    const auto nbytes = static_cast<int64_t>(storage->nbytes());
    blocks().enter(data.get(), {this, nbytes});
    const int64_t now = live += nbytes;
    if (others + now > most) most = others + now;
    return true;
  }

  // Has it memory of somebody else's, such as NumPy's? It cannot be counted here.
  static bool foreign(StorageImpl* storage) {
    const at::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    return data.get() && data.get_deleter() != theirs() && data.get_deleter() != &give_back;
  }

  // Python counts it instead.
  static void remove(StorageImpl* storage) {
    at::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    if (data.compare_exchange_deleter(&give_back, theirs())) blocks().leave(data.get());
  }

 private:
  struct Block {
    Account* account;
    int64_t nbytes;
  };

  class Blocks {
   public:
    void enter(void* data, Block block) {
      const std::lock_guard<std::mutex> lock(mutex_);
      all_[data] = block;
    }
    void leave(void* data) {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = all_.find(data);
      if (found == all_.end()) return;
      found->second.account->live -= found->second.nbytes;
      all_.erase(found);
    }

   private:
    std::mutex mutex_;
    ska::flat_hash_map<void*, Block> all_;
  };

  static Blocks& blocks() {
    static auto* blocks = new Blocks();
    return *blocks;
  }

  static c10::DeleterFnPtr theirs() {
    static const c10::DeleterFnPtr deleter = c10::GetAllocator(c10::DeviceType::CPU)->raw_deleter();
    return deleter;
  }

  static void give_back(void* data) {
    blocks().leave(data);
    theirs()(data);
  }
};

}  // namespace coopsim
