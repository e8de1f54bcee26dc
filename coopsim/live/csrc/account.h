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
  // allocator's.
  bool add(StorageImpl* storage) {
    at::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    if (!data.get() || data.get_context() != data.get()) return false;
    if (!data.compare_exchange_deleter(theirs(), &give_back) && data.get_deleter() != &give_back) return false;
    blocks().enter(data.get(), {this, static_cast<int64_t>(storage->nbytes())});
    if (others + live > most) most = others + live;
    return true;
  }

  // Has it memory of somebody else's, such as NumPy's? It cannot be counted here.
  static bool foreign(StorageImpl* storage) {
    const at::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    return data.get() && data.get_deleter() != theirs() && data.get_deleter() != &give_back;
  }

 private:
  struct Block {
    Account* account = nullptr;
    int64_t nbytes = 0;
  };

  class Blocks {
   public:
    void enter(void* data, Block block) {
      const std::lock_guard<std::mutex> lock(mutex_);
      Block& there = all_[data];  // counted before, perhaps by another account
      if (there.account) there.account->live -= there.nbytes;
      there = block;
      block.account->live += block.nbytes;
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
