// Follows a plan, op by op, as follow.py does, and leaves to Python whatever is not as planned.
#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "account.h"
#include "calls.h"
#include "cells.h"
#include "sums.h"
#include "table.h"

extern "C" {
void* PyEval_SaveThread(void);
void PyEval_RestoreThread(void*);
}

namespace coopsim {

// All that coopsim's Python reads directly. done: actions before the next entry that have been done already. gone: are
// there storages without memory?
// python: how often Python was called, for ops and by `Callbacks`, since the follower is there. raised: one of these calls
// has raised what the program is to see.
struct State {
  int64_t engaged, at, broken, gone, done, evictions, recomputes, python, raised;
};

// What Python is called for. again: run a call that Python has kept; `made` says how many results, each with a reference
// that is ours. copy: what an action says of the host's copies; `found` is the memory of a value that arrives, with a
// reference that is ours, else whether one may leave. Both leave -1 there if they fail. roomy: from now on (1), or no
// more (0), an op may go over the budget. foreign: a storage on the CPU whose memory is not PyTorch's allocator's, which
// Python has to count.
struct Callbacks {
  void (*again)(int64_t op, StorageImpl* const* operands, int64_t n, StorageImpl** results, int64_t* made) = nullptr;
  void (*copy)(int64_t kind, int64_t s, int64_t v, int64_t at, int64_t storage, int64_t* found) = nullptr;
  void (*roomy)(int64_t enter) = nullptr;
  void (*foreign)(StorageImpl* storage) = nullptr;
};

// One thread at a time. Who waits gives up Python's lock, as who is inside may want it.
class Inside {
 public:
  explicit Inside(std::recursive_mutex& mutex) : mutex_(mutex) {
    if (mutex_.try_lock()) return;
    void* python = PyGILState_Check() ? PyEval_SaveThread() : nullptr;
    mutex_.lock();
    if (python) PyEval_RestoreThread(python);
  }
  ~Inside() { mutex_.unlock(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::recursive_mutex& mutex_;
};

class Follower {
 public:
  State state{};
  Callbacks callbacks;
  const std::string error;  // what reading a storage without memory says
  Account* const account = new Account();
  const volatile int64_t* ooms = &none;  // how often the allocator has found no memory (Attempts)
  std::recursive_mutex mutex;
  Cells cells;
  bool on_cpu = false;
  int64_t usual = 0;  // settings when the step began

  // A call that is kept is ours, or Python's, if this is null. Where none is, ours is room for one, of earlier steps.
  struct Kept {
    bool there = false;
    std::shared_ptr<Call> ours;

    void fetch() const {
      const auto* const line = reinterpret_cast<const char*>(ours.get());
      if (line)
        for (size_t i = 0; i < sizeof(Call); i += 64) __builtin_prefetch(line + i, 1);
    }

    void forget() {
      if (!there) return;
      there = false;
      if (ours.use_count() > 1) ours.reset();  // Python has it
      else if (ours) ours->let_go();
    }
  };
  std::vector<Kept> calls;

  explicit Follower(const char* error) : error(error) {}

  void engage(const Table* table, int64_t at) {
    table_ = table;
    cells.start(table->storages);
    forget_calls();
    calls.resize(table->ops.size());
    if (!on_cpu) {
      guard_ = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
      device_ = guard_->getDevice();
    }
    state.at = at;
    state.broken = state.gone = state.done = state.evictions = state.recomputes = 0;
    state.engaged = 1;
  }

  void disengage() {
    state.engaged = state.gone = 0;
    cells.start(0);
    forget_calls();
    table_ = nullptr;
  }

  // Is all that the program has there? Else Python has to bring it back before the step ends.
  bool complete() {
    for (size_t s = 0; state.gone && s < cells.size(); s++) {
      const Cell& cell = cells[static_cast<int32_t>(s)];
      if (cell.gone && !cell.program.expired()) return false;
    }
    return true;
  }

  // The row that comes next, if this op is its, and works on no larger data.
  const Row* next(const OperatorHandle& op, const Stack* stack) const {
    if (!state.engaged || state.broken || state.at >= static_cast<int64_t>(table_->rows.size())) return nullptr;
    const Row& row = table_->rows[static_cast<size_t>(state.at)];
    if (!row.op) return nullptr;
    if (!(*row.op == op) && !(stack && row.sums && adds_up(op, *stack))) return nullptr;
    const bool more =
        stack && row.bounded && outgrows(*stack, row.given, row.tensors, table_->kind, row.elements);
    return more ? nullptr : &row;
  }

  // Do ops compute as when the step began?
  bool is_usual() const { return settings(on_cpu) == usual; }

  // Run the op of a row. False: nothing was done to the stack, and Python has to go on.
  bool run(const Row& row, Stack* stack) {
    if (!row.views && !on_default_stream()) return false;  // as Python alone guards what several streams use
    if (!row.idle && !is_usual()) return false;  // calls know no other settings
    Drawn drawn;
    if (row.draws != Draws::nothing) drawn.keep(row.draws, *stack, row.given, table_->kind);
    if (row.idle && !state.gone) {
      if (!execute(row, stack, drawn)) return false;
      advance();
      return true;
    }
    Found operands;
    if (row.watches || state.gone) operands = top(*stack, row.given, row.tensors, table_->kind);
    if (!prepare(row, operands)) return false;
    if (row.call >= 0) {
      std::shared_ptr<Call>& call = calls[static_cast<size_t>(row.call)].ours;
      if (!call || call.use_count() > 1) call = std::make_shared<Call>();
      call->keep(*row.op, *stack, row.tensors, row.made, table_->kind, drawn);
    }
    if (!execute(row, stack, drawn)) return false;
    advance();
    Found results;
    if (!row.find.empty() || on_cpu) results = top(*stack, row.returned, row.made, table_->kind);
    conclude(row, operands, results);
    return true;
  }

  // The same for autograd's own way to detach a tensor.
  bool detach(const Row& row, const c10::TensorImpl* tensor) {
    if (row.call >= 0) return false;
    Found operands;
    if (tensor->device().type() == table_->kind && tensor->layout() == at::kStrided)
      operands.push_back(tensor->unsafe_storage().unsafeGetStorageImpl());
    if (!prepare(row, operands)) return false;
    advance();
    conclude(row, operands, operands);
    return true;
  }

 private:
  bool on_default_stream() const {
    if (on_cpu) return true;
    return guard_->getStream(device_).id() == 0;
  }

  void forget_calls() {
    for (Kept& kept : calls) kept.forget();
  }

  const Made& made_by(int32_t op) const { return table_->ops[static_cast<size_t>(op)]; }

  void advance() {
    state.at++;
    state.done = 0;
    fetch(static_cast<size_t>(state.at));
  }

  // Let the processor have in its cache what the next rows need: their lines are cold, as PyTorch runs in between.
  void fetch(size_t at) const {
    const std::vector<Row>& rows = table_->rows;
    if (at + 1 >= rows.size()) return;
    const auto* const line = reinterpret_cast<const char*>(&rows[at + 1]);
    for (size_t i = 0; i < sizeof(Row); i += 64) __builtin_prefetch(line + i);
    const Row& next = rows[at];
    if (next.idle) return;
    __builtin_prefetch(next.look.data());
    __builtin_prefetch(next.tensors.data());
    if (next.call >= 0) calls[static_cast<size_t>(next.call)].fetch();
  }

  // Up to the op itself.
  bool prepare(const Row& row, const Found& operands) {
    if (!look(row, operands)) return false;
    if (row.views) return true;
    try {
      for (; state.done < static_cast<int64_t>(row.before.size()); state.done++)
        if (!act(row.before[static_cast<size_t>(state.done)])) return false;
      for (StorageImpl* storage : operands)
        if (state.gone && hollow(storage)) return false;
      for (const Value& value : row.copies) copy(value);
    } catch (const std::exception&) {
      forget_python_s();
      return false;  // there is no room, say: Python does it again, and will know
    }
    return true;
  }

  // Are the watched operands where the plan has them, and is nothing else changed? New ones are learned.
  bool look(const Row& row, const Found& operands) {
    if (!learn(row.look, operands)) return false;
    if (!row.changes) return true;
    auto expected = row.look.begin();
    for (size_t i = 0; i < operands.size(); i++) {
      if (expected != row.look.end() && expected->position == static_cast<int32_t>(i)) expected++;
      else if (cells.find(operands[i])) return false;
    }
    return true;
  }

  bool learn(ArrayRef<Watch> watched, const Found& found) {
    for (const Watch& w : watched) {
      if (w.position >= static_cast<int32_t>(found.size())) return false;
      StorageImpl* storage = found[static_cast<size_t>(w.position)];
      const StorageImpl* known = cells[w.storage].storage;
      if (!known) cells.bind(w.storage, storage);
      else if (known != storage) return false;
    }
    return true;
  }

  // Runs it. False: it found no room, and the stack and the generators are as they were (Attempts).
  bool execute(const Row& row, Stack* stack, const Drawn& drawn) {
    c10::impl::ExcludeDispatchKeyGuard below(modes);
    if (row.views) {  // nothing that can be short
      row.op->callBoxed(stack);
      return true;
    }
    if (row.repeats == Repeats::never) {  // it cannot be started again, so that it may go over the budget
      state.python += callbacks.roomy != nullptr;
      const auto roomy = [this](int64_t enter) { if (callbacks.roomy) callbacks.roomy(enter); };
      roomy(1);
      const auto back = c10::make_scope_exit([&roomy] { roomy(0); });
      row.op->callBoxed(stack);
      return true;
    }
    const size_t base = stack->size() - row.given;
    const c10::SmallVector<IValue, 8> args(stack->begin() + static_cast<std::ptrdiff_t>(base), stack->end());
    const int64_t before = *ooms;
    bool failed = false;
    try {
      row.op->callBoxed(stack);
      if (*ooms == before) return true;
    } catch (const std::exception& why) {
      failed = ran_out(why);
      if (!failed && *ooms == before && !reads_evicted(why)) throw;
      forget_python_s();
    }
    TORCH_CHECK(failed || *ooms == before || row.repeats == Repeats::always,
                row.op->operator_name(), " found no memory, went on, and changed its operands: it cannot be run again");
    drawn.restore();
    stack->resize(base);
    stack->insert(stack->end(), args.begin(), args.end());
    return false;
  }

  bool reads_evicted(const std::exception& why) const { return std::strstr(why.what(), error.c_str()) != nullptr; }

  void conclude(const Row& row, const Found& operands, const Found& results) {
    for (const Value& v : row.makes)
      if (cells[v.storage].storage) cells[v.storage].version = v.version;
    if (on_cpu)
      for (StorageImpl* storage : results) {
        if (Account::foreign(storage)) {
          state.python++;
          callbacks.foreign(storage);
        } else if (row.creates && std::find(operands.begin(), operands.end(), storage) == operands.end())
          account->add(storage);
      }
    if (!learn(row.find, results)) {
      state.broken = 1;
      return;
    }
    if (row.call >= 0) calls[static_cast<size_t>(row.call)].there = true;
    for (const Value& v : row.keep) {
      Cell& cell = cells[v.storage];
      if (!cell.storage || cell.version != v.version || cell.gone || cell.holding(v.version)) continue;
      if (StoragePtr storage = cell.program.lock()) cell.held.emplace_back(v.version, std::move(storage));
    }
  }

  bool act(const Action& action) {
    if (action.kind == Kind::again) return again(action);
    Cell& cell = cells[action.value.storage];
    if (!cell.storage) return true;
    if (action.kind == Kind::evict) evict(action.value);
    else if (action.kind == Kind::drop) cell.let_go(action.value.version);
    else return copies(action, cell);
    return true;
  }

  // To the host and back. False: it failed.
  bool copies(const Action& action, const Cell& cell) {
    const StoragePtr storage = cell.version == action.value.version ? cell.program.lock() : StoragePtr();
    const bool back = action.kind == Kind::fetch || action.kind == Kind::arrive;
    if (!storage || cell.gone != back || (cell.pinned && !back)) return true;
    const Below below;
    state.python++;
    int64_t found = -1;
    callbacks.copy(static_cast<int64_t>(action.kind), action.value.storage, action.value.version, action.at,
                   static_cast<int64_t>(reinterpret_cast<intptr_t>(storage.get())), &found);
    if (found < 0) return false;
    if (action.kind == Kind::leave && found) evict(action.value);
    if (action.kind == Kind::arrive && found)
      assign(action.value, StoragePtr::reclaim(reinterpret_cast<StorageImpl*>(static_cast<intptr_t>(found))));
    return true;
  }

  void evict(const Value& value) {
    Cell& cell = cells[value.storage];
    cell.let_go(value.version);
    if (cell.version != value.version || cell.gone || cell.pinned) return;
    const StoragePtr storage = cell.program.lock();
    if (!storage) return;
    cell.gone = true;
    state.gone++;
    empty(storage.get(), error);
    state.evictions++;
  }

  void copy(const Value& value) {
    Cell& cell = cells[value.storage];
    const StoragePtr memory = cell.storage && !cell.holding(value.version) ? cells.memory_of(value) : StoragePtr();
    if (memory) cell.held.emplace_back(value.version, counted(copy_of(memory)));
  }

  StoragePtr counted(StoragePtr storage) const {
    if (on_cpu) account->add(storage.get());
    return storage;
  }

  // Run an op again. False: something is not there that by plan is.
  bool again(const Action& action) {
    const Kept& kept = calls[static_cast<size_t>(action.op)];
    if (!kept.there) return true;
    const Made& made = made_by(action.op);
    c10::SmallVector<StoragePtr, 8> where;  // by number of the read
    c10::SmallVector<Value, 2> taken;
    for (const Value& read : made.reads) {
      StoragePtr memory = cells.memory_of(read);
      if (!memory) return false;
      where.push_back(std::move(memory));
    }
    for (size_t i = 0; i < made.reads.size(); i++) {
      const Value& read = made.reads[i];
      if (std::find(made.mutates.begin(), made.mutates.end(), read.storage) == made.mutates.end()) continue;
      if (made.restarts && takes_over(action, made, read.storage) && cells[read.storage].holding(read.version))
        taken.push_back(read);
      else where[i] = counted(copy_of(where[i]));  // the older version stays; or these are statistics
    }
    const auto memory_of = [&](int32_t s) -> StorageImpl* {
      for (size_t i = 0; i < made.reads.size(); i++)
        if (made.reads[i].storage == s) return where[i].get();
      return nullptr;
    };
    Found operands;
    for (const int32_t s : made.inputs) {
      operands.push_back(s < 0 ? nullptr : memory_of(s));
      if (s >= 0 && !operands.back()) return false;
    }
    const int64_t before = *ooms;
    const Results results = kept.ours ? kept.ours->run(operands) : by_python(action.op, operands);
    for (const Value& read : taken) cells[read.storage].let_go(read.version);  // as it is changed, also if it failed
    if ((kept.ours && *ooms != before) || results.size() != made.results.size()) return false;
    const auto result_of = [&](int32_t s) -> StoragePtr {
      if (StorageImpl* changed = memory_of(s)) return StoragePtr::reclaim_copy(changed);
      StoragePtr found;
      for (size_t i = 0; i < made.results.size(); i++)
        if (made.results[i] == s) found = results[i];
      return found;
    };
    for (const Value& target : action.targets) assign(target, result_of(target.storage));
    for (const Value& target : action.takeovers)
      if (std::find(action.targets.begin(), action.targets.end(), target) == action.targets.end())
        assign(target, result_of(target.storage));
    state.recomputes++;
    return true;
  }

  static bool takes_over(const Action& action, const Made& made, int32_t s) {
    for (const Value& after : made.writes)
      if (after.storage == s)
        return std::find(action.takeovers.begin(), action.takeovers.end(), after) != action.takeovers.end();
    return false;
  }

  // A value made again goes into the program's storage, if that waits for it; else it is ours.
  void assign(const Value& value, StoragePtr storage) {
    Cell& cell = cells[value.storage];
    const StoragePtr theirs = cell.storage && cell.version == value.version ? cell.program.lock() : StoragePtr();
    if (!storage) return;
    counted(storage);
    if (!theirs) {
      cell.let_go(value.version);
      cell.held.emplace_back(value.version, std::move(storage));
    } else if (cell.gone) {
      cell.gone = false;
      state.gone--;
      swap(theirs.get(), storage.get());  // nothing is copied
    }
  }

  Results by_python(int32_t op, const Found& operands) {
    const Below below;
    std::vector<StorageImpl*> found(made_by(op).results.size());
    state.python++;
    int64_t n = -1;
    callbacks.again(op, operands.data(), static_cast<int64_t>(operands.size()), found.data(), &n);
    Results results;
    for (int64_t i = 0; i < n; i++) results.push_back(found[i] ? StoragePtr::reclaim(found[i]) : StoragePtr());
    return results;
  }

  static constexpr int64_t none = 0;
  const Table* table_ = nullptr;
  const c10::impl::DeviceGuardImplInterface* guard_ = nullptr;  // of the GPU that the step runs on
  c10::Device device_ = c10::Device(c10::DeviceType::CPU);
};

}  // namespace coopsim
