// Follows a plan's tape below autograd, and calls the Python mode only where the plan has something to do.
//
// PyTorch calls dispatch modes through a table of functions of its Python interpreter. That table is replaced by one
// that differs in `dispatch` and `detach`: where the mode on top is that of the step, an observer decides who runs the op.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace c10::impl {

// Hands all but these two to PyTorch's own table; delegates.h is made from PyTorch's header.
struct CoopsimDelegating : PyInterpreterVTable {
  const PyInterpreterVTable* real = nullptr;
#include "delegates.h"
};

}  // namespace c10::impl

namespace {

using c10::IValue;
using c10::OperatorHandle;
using c10::StorageImpl;
using c10::impl::PyInterpreterVTable;
using c10::impl::TorchDispatchModeTLS;
using torch::jit::Stack;
using Found = c10::SmallVector<StorageImpl*, 16>;

struct Watch {
  int32_t position, storage;
};

struct Row {
  std::optional<OperatorHandle> op;
  bool idle;  // Python has nothing to do here
  std::vector<Watch> look, find;
};

struct Table {
  c10::DeviceType kind;
  size_t storages;
  std::vector<Row> rows;
};

// All that coopsim's Python reads and writes directly.
struct State {
  int64_t engaged, at, broken, met;
};

void collect(const IValue& value, c10::DeviceType kind, Found& found) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    // Python has numbers where these are.
    if (tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
    if (tensor.defined() && tensor.device().type() == kind && tensor.layout() == at::kStrided)
      found.push_back(tensor.storage().unsafeGetStorageImpl());
  } else if (value.isList()) {
    for (const IValue& one : value.toListRef()) collect(one, kind, found);
  } else if (value.isTuple()) {
    for (const IValue& one : value.toTupleRef().elements()) collect(one, kind, found);
  }
}

Found top(const Stack& stack, size_t n, c10::DeviceType kind) {
  Found found;
  for (size_t i = stack.size() - n; i < stack.size(); i++) collect(stack[i], kind, found);
  return found;
}

bool evicted(StorageImpl* storage) {
  return storage->nbytes() > 0 && storage->_mutable_data_ptr_no_checks().get() == nullptr;
}

PyObject* mode_on_top() {
  const int64_t n = TorchDispatchModeTLS::stack_len();
  if (!n) return nullptr;
  const auto& mode = TorchDispatchModeTLS::get_stack_at(n - 1);
  return mode->ptr(&mode->pyinterpreter());
}

class Observer {
 public:
  State state{0, 0, 0, 0};

  void engage(const Table* table, int64_t at) {
    disengage();
    table_ = table;
    bound_.assign(table->storages, nullptr);
    state = {1, at, 0, 0};
  }

  void disengage() {
    std::lock_guard<std::mutex> lock(mutex_);
    for (StorageImpl* storage : bound_)
      if (storage) c10::raw::weak_intrusive_ptr::decref(storage);
    bound_.clear();
    log_.clear();
    sizes_.clear();
    table_ = nullptr;
    state.engaged = state.broken = state.met = 0;
  }

  void bind(int32_t s, StorageImpl* storage) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state.engaged && !bound_[s]) hold(s, storage);
  }

  // Storages that were met since the last call, while Python was not there.
  int64_t take(int64_t most, int32_t* numbers, int64_t* addresses, int64_t* sizes) {
    std::lock_guard<std::mutex> lock(mutex_);
    int64_t n = 0;
    for (; n < most && n < static_cast<int64_t>(log_.size()); n++) {
      numbers[n] = log_[n];
      addresses[n] = reinterpret_cast<int64_t>(bound_[log_[n]]);
      sizes[n] = sizes_[n];
    }
    log_.erase(log_.begin(), log_.begin() + n);
    sizes_.erase(sizes_.begin(), sizes_.begin() + n);
    state.met = static_cast<int64_t>(log_.size());
    return n;
  }

  void run(const OperatorHandle& op, Stack* stack, const PyInterpreterVTable* real) {
    const size_t given = op.schema().arguments().size(), made = op.schema().returns().size();
    const Row* row = nullptr;
    int64_t at = 0;
    bool ours = false;
    c10::DeviceType kind{};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      at = state.at;
      if (state.engaged && at < static_cast<int64_t>(table_->rows.size())) {
        row = &table_->rows[at];
        kind = table_->kind;
        if (!row->op || !(*row->op == op)) row = nullptr;
      }
      if (row) {
        const Found found = top(*stack, given, kind);
        ours = row->idle;
        for (size_t i = 0; ours && i < found.size(); i++) ours = !evicted(found[i]);
        if (!learn(row->look, found, row->idle)) row = nullptr;
      }
    }
    if (!row || !ours) {
      real->dispatch(op, stack);
      if (row) after(row, at + 1, *stack, made, false);
      return;
    }
    const std::vector<IValue> again(stack->end() - static_cast<std::ptrdiff_t>(given), stack->end());
    const size_t base = stack->size() - given;
    try {
      below(op, stack);
    } catch (const c10::OutOfMemoryError&) {
      stack->resize(base);
      stack->insert(stack->end(), again.begin(), again.end());
      real->dispatch(op, stack);
      after(row, at + 1, *stack, made, false);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      state.at = at + 1;
    }
    after(row, at + 1, *stack, made, true);
  }

  // May it be done without Python?
  bool detach(const c10::TensorImpl* tensor) {
    static const OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
    std::lock_guard<std::mutex> lock(mutex_);
    if (!state.engaged || state.at >= static_cast<int64_t>(table_->rows.size())) return false;
    const Row& row = table_->rows[state.at];
    if (!row.idle || !row.op || !(*row.op == op) || tensor->key_set().has(c10::DispatchKey::Python)) return false;
    Found found;
    if (tensor->device().type() == table_->kind && tensor->layout() == at::kStrided)
      found.push_back(tensor->unsafe_storage().unsafeGetStorageImpl());
    for (StorageImpl* storage : found)
      if (evicted(storage)) return false;
    if (!learn(row.look, found, true) || !learn(row.find, found, true)) return false;
    state.at++;
    return true;
  }

 private:
  void hold(int32_t s, StorageImpl* storage) {
    c10::raw::weak_intrusive_ptr::incref(storage);
    bound_[s] = storage;
  }

  // Are the watched storages where the plan has them? New ones are learned.
  bool learn(const std::vector<Watch>& watched, const Found& found, bool log) {
    for (const Watch& w : watched) {
      if (w.position >= static_cast<int32_t>(found.size())) return false;
      StorageImpl* storage = found[w.position];
      if (!bound_[w.storage]) {
        hold(w.storage, storage);
        if (log) {
          log_.push_back(w.storage);
          sizes_.push_back(static_cast<int64_t>(storage->nbytes()));
          state.met++;
        }
      } else if (bound_[w.storage] != storage) {
        return false;
      }
    }
    return true;
  }

  void after(const Row* row, int64_t at, const Stack& stack, size_t made, bool log) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!state.engaged || state.at != at || row->find.empty()) return;
    if (!learn(row->find, top(stack, made, table_->kind), log)) state = {0, at, 1, static_cast<int64_t>(log_.size())};
  }

  static void below(const OperatorHandle& op, Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard guard(
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
    op.callBoxed(stack);
  }

  std::mutex mutex_;
  const Table* table_ = nullptr;
  std::vector<StorageImpl*> bound_;  // by number of the storage; we hold weak references
  std::vector<int32_t> log_;
  std::vector<int64_t> sizes_;
};

std::atomic<Observer*> active{nullptr};
std::atomic<PyObject*> mode_of_active{nullptr};

Observer* observer_here() {
  PyObject* mode = mode_of_active;
  return mode && mode == mode_on_top() ? active.load() : nullptr;
}

struct Watched final : c10::impl::CoopsimDelegating {
  void dispatch(const OperatorHandle& op, Stack* stack) const override {
    Observer* observer = observer_here();
    if (observer)
      observer->run(op, stack, real);
    else
      real->dispatch(op, stack);
  }

  // Autograd detaches tensors by this way, and does so itself where it gets nothing back.
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* self) const override {
    Observer* observer = observer_here();
    if (observer && observer->detach(self)) return {};
    return real->detach(self);
  }
};

std::vector<Watch> watched(const int32_t* start, const Watch* all, int64_t row) {
  return std::vector<Watch>(all + start[row], all + start[row + 1]);
}

}  // namespace

extern "C" {

Observer* coopsim_observer() { return new Observer(); }
State* coopsim_state(Observer* observer) { return &observer->state; }

// From here on the mode on top of the stack is watched. 0: another one is.
int coopsim_enter(Observer* observer) {
  static Watched table;
  if (active.load()) return 0;
  c10::impl::PyInterpreter& interpreter =
      TorchDispatchModeTLS::get_stack_at(TorchDispatchModeTLS::stack_len() - 1)->pyinterpreter();
  if (interpreter.vtable_ != &table) {
    table.real = interpreter.vtable_;
    interpreter.vtable_ = &table;  // and it stays: other threads may be inside
  }
  active = observer;
  mode_of_active = mode_on_top();
  return 1;
}
void coopsim_leave(Observer* observer) {
  mode_of_active = nullptr;
  active = nullptr;
  observer->disengage();
}
void coopsim_engage(Observer* observer, const Table* table, int64_t at) { observer->engage(table, at); }
void coopsim_disengage(Observer* observer) { observer->disengage(); }
void coopsim_bind(Observer* observer, int32_t s, StorageImpl* storage) { observer->bind(s, storage); }
int64_t coopsim_take(Observer* observer, int64_t most, int32_t* numbers, int64_t* addresses, int64_t* sizes) {
  return observer->take(most, numbers, addresses, sizes);
}

Table* coopsim_table(int cuda, int64_t storages, int64_t rows, const char** names, const char** overloads,
                     const int8_t* idle, const int32_t* look_start, const Watch* look, const int32_t* find_start,
                     const Watch* find) {
  auto table = std::make_unique<Table>();
  table->kind = cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
  table->storages = storages;
  for (int64_t i = 0; i < rows; i++) {
    auto op = c10::Dispatcher::singleton().findSchema({names[i], overloads[i]});
    table->rows.push_back({op, idle[i] != 0, watched(look_start, look, i), watched(find_start, find, i)});
  }
  return table.release();
}
void coopsim_free(Table* table) { delete table; }
}
