// What is known of the storages of a step: the same as tracked.py, by number of the trace.
#pragma once

#include <c10/util/flat_hash_map.h>

#include <utility>
#include <vector>

#include "storages.h"
#include "table.h"

namespace coopsim {

struct Cell {
  c10::weak_intrusive_ptr<StorageImpl> program = c10::weak_intrusive_ptr<StorageImpl>::reclaim(nullptr);
  StorageImpl* storage = nullptr;  // its address, which nothing else has while we refer to it
  int64_t nbytes = 0;
  int32_t version = 0;
  bool gone = false, pinned = false;
  c10::SmallVector<std::pair<int32_t, StoragePtr>, 1> held;

  StoragePtr* holding(int32_t v) {
    for (auto& [version, memory] : held)
      if (version == v) return &memory;
    return nullptr;
  }

  void let_go(int32_t v) {
    for (size_t i = 0; i < held.size(); i++)
      if (held[i].first == v) {
        const StoragePtr last = std::move(held[i].second);  // goes when the list is as it should be
        held[i] = std::move(held.back());
        held.pop_back();
        return;
      }
  }
};

class Cells {
 public:
  void start(size_t n) {
    all_.clear();
    all_.resize(n);
    numbers_.clear();
    bound_.clear();
  }

  Cell& operator[](int32_t s) { return all_[static_cast<size_t>(s)]; }
  size_t size() const { return all_.size(); }

  // Null if the plan does not know it.
  Cell* find(StorageImpl* storage) {
    for (const int32_t s : bound_) numbers_[(*this)[s].storage] = s;
    bound_.clear();
    const auto found = numbers_.find(storage);
    return found == numbers_.end() ? nullptr : &all_[static_cast<size_t>(found->second)];
  }

  void bind(int32_t s, StorageImpl* storage) {
    Cell& cell = (*this)[s];
    cell.program = c10::weak_intrusive_ptr<StorageImpl>(StoragePtr::reclaim_copy(storage));
    cell.storage = storage;
    cell.nbytes = static_cast<int64_t>(storage->nbytes());
    bound_.push_back(s);
  }

  // The program's is no more.
  void bury(int32_t s) {
    static char grave;
    (*this)[s].storage = reinterpret_cast<StorageImpl*>(&grave);  // no other can be found in its place
  }

  // The storage that has the bytes of a value; null if there is none.
  StoragePtr memory_of(Value value) {
    Cell& cell = (*this)[value.storage];
    if (const StoragePtr* held = cell.holding(value.version)) return *held;
    return cell.storage && cell.version == value.version && !cell.gone ? cell.program.lock() : StoragePtr();
  }

 private:
  std::vector<Cell> all_;
  ska::flat_hash_map<StorageImpl*, int32_t> numbers_;
  std::vector<int32_t> bound_;  // not in `numbers_` yet, as few are sought
};

}  // namespace coopsim
