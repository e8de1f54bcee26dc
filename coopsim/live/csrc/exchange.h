// All that a follower knows, in one array of numbers: to Python where it goes on by itself, and back.
#pragma once

#include <vector>

#include "follower.h"

namespace coopsim {

// cells: number, address, bytes, version, gone, pinned, number of versions held: version, address. Then the calls: op,
// and a call of its own for Python, 0 if it is Python's. The first number is how many follow.
inline std::vector<int64_t> write_all(Follower& follower) {
  std::vector<int64_t> all{0};
  const auto address = [](const void* p) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(p)); };
  int64_t n = 0;
  for (size_t s = 0; s < follower.cells.size(); s++) {
    const Cell& cell = follower.cells[static_cast<int32_t>(s)];
    if (!cell.storage) continue;
    n++;
    all.insert(all.end(), {static_cast<int64_t>(s), cell.program.expired() ? 0 : address(cell.storage), cell.nbytes,
                           cell.version, cell.gone, cell.pinned, static_cast<int64_t>(cell.held.size())});
    for (const auto& [version, memory] : cell.held) all.insert(all.end(), {version, address(memory.get())});
  }
  all[0] = n;
  const size_t calls = all.size();
  all.push_back(0);
  for (size_t op = 0; op < follower.calls.size(); op++) {
    const auto& kept = follower.calls[op];
    if (!kept.there) continue;
    all[calls]++;
    auto* handle = kept.ours ? new std::shared_ptr<Call>(kept.ours) : nullptr;
    all.insert(all.end(), {static_cast<int64_t>(op), address(handle)});
  }
  return all;
}

inline void read_all(Follower& follower, const int64_t* numbers) {
  Reader reader(numbers, nullptr);
  const auto pointer = [&reader] { return reinterpret_cast<void*>(static_cast<intptr_t>(reader.next())); };
  for (int64_t n = reader.next(); n > 0; n--) {
    const auto s = reader.number();
    auto* storage = static_cast<StorageImpl*>(pointer());
    if (storage) follower.cells.bind(s, storage);
    else follower.cells.bury(s);
    Cell& cell = follower.cells[s];
    cell.nbytes = reader.next();
    cell.version = reader.number();
    cell.gone = reader.next() != 0;
    cell.pinned = reader.next() != 0;
    follower.state.gone += cell.gone;
    for (int64_t k = reader.next(); k > 0; k--) {
      const int32_t version = reader.number();
      cell.held.emplace_back(version, StoragePtr::reclaim_copy(static_cast<StorageImpl*>(pointer())));
    }
  }
  for (int64_t n = reader.next(); n > 0; n--) {
    const auto op = static_cast<size_t>(reader.next());
    const auto* call = static_cast<std::shared_ptr<Call>*>(pointer());
    follower.calls.at(op) = {true, call ? *call : nullptr};
  }
}

}  // namespace coopsim
