// Stands between PyTorch and the dispatch mode of a step, and calls the mode only for what a follower leaves to Python.
//
// PyTorch calls dispatch modes through a table of functions of its Python interpreter. That table is replaced by one
// that differs in `dispatch` and `detach`.
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <atomic>
#include <memory>
#include <vector>

#include "follower.h"

namespace c10::impl {

// Hands all but these two to PyTorch's own table; delegates.h is made from PyTorch's header.
struct CoopsimDelegating : PyInterpreterVTable {
  const PyInterpreterVTable* real = nullptr;
#include "delegates.h"
};

}  // namespace c10::impl

namespace coopsim {
namespace {

// All that a follower knows, in one array of numbers: to Python where it goes on by itself, and back.
//
// cells: number, address, bytes, version, gone, pinned, number of versions held: version, address. Then the calls: op,
// and a call of its own for Python, 0 if it is Python's. The first number is how many follow.
std::vector<int64_t> write_all(Follower& follower) {
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

void read_all(Follower& follower, const int64_t* numbers) {
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

using c10::impl::TorchDispatchModeTLS;

PyObject* mode_on_top() {
  const int64_t n = TorchDispatchModeTLS::stack_len();
  if (!n) return nullptr;
  const auto& mode = TorchDispatchModeTLS::get_stack_at(n - 1);
  return mode->ptr(&mode->pyinterpreter());
}

std::atomic<Follower*> active{nullptr};
std::atomic<PyObject*> mode_of_active{nullptr};

Follower* follower_here() {
  PyObject* mode = mode_of_active;
  return mode && mode == mode_on_top() ? active.load() : nullptr;
}

// Marks for PyTorch's profiler are no ops of a plan (step.py's _MARKS).
bool is_mark(const OperatorHandle& op) { return op.operator_name().name.rfind("profiler::", 0) == 0; }

struct Watched final : c10::impl::CoopsimDelegating {
  void dispatch(const OperatorHandle& op, Stack* stack) const override {
    Follower* follower = follower_here();
    if (!follower) return real->dispatch(op, stack);
    const Inside inside(follower->mutex);
    const Row* row = follower->next(op, stack);
    if (!row && is_mark(op)) {
      c10::impl::ExcludeDispatchKeyGuard below(modes);
      return op.callBoxed(stack);
    }
    if (row && follower->run(*row, stack)) return raise(*follower);
    follower->state.python++;
    real->dispatch(op, stack);
  }

  // Let the program see what Python has raised when it was called: the mode raises it, whatever op it is given.
  void raise(const Follower& follower) const {
    if (!follower.state.raised) return;
    static const OperatorHandle any = c10::Dispatcher::singleton().findSchemaOrThrow("aten::scalar_tensor", "");
    Stack stack{0.0, IValue(), IValue(), IValue(), IValue()};
    real->dispatch(any, &stack);
  }

  // Autograd detaches tensors by this way, and does so itself where it gets nothing back.
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* self) const override {
    static const OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
    Follower* follower = follower_here();
    if (!follower || self->key_set().has(c10::DispatchKey::Python)) return real->detach(self);
    const Inside inside(follower->mutex);
    const Row* row = follower->next(op, nullptr);
    if (row && follower->detach(*row, self)) return {};
    follower->state.python++;
    return real->detach(self);
  }
};

}  // namespace
}  // namespace coopsim

// What observer.py calls. Storages go by their addresses.
extern "C" {
using namespace coopsim;

Follower* coopsim_follower(const char* error, void* out_of_memory) {
  python_s_out_of_memory() = out_of_memory;
  return new Follower(error);
}
State* coopsim_state(Follower* follower) { return &follower->state; }
Account* coopsim_account(Follower* follower) { return follower->account; }
Callbacks* coopsim_callbacks(Follower* follower) { return &follower->callbacks; }
int coopsim_is_usual(Follower* follower) { return follower->is_usual(); }

// From here on the mode on top of the stack is watched. 0: another one is.
int coopsim_enter(Follower* follower, int on_cpu) {
  static Watched table;
  if (active.load()) return 0;
  c10::impl::PyInterpreter& interpreter =
      TorchDispatchModeTLS::get_stack_at(TorchDispatchModeTLS::stack_len() - 1)->pyinterpreter();
  if (interpreter.vtable_ != &table) {
    table.real = interpreter.vtable_;
    interpreter.vtable_ = &table;  // and it stays: other threads may be inside
  }
  follower->on_cpu = on_cpu != 0;
  follower->usual = settings(follower->on_cpu);
  active = follower;
  mode_of_active = mode_on_top();
  return 1;
}
void coopsim_leave() {
  mode_of_active = nullptr;
  active = nullptr;
}

void coopsim_engage(Follower* follower, const Table* table, int64_t at, const int64_t* known, const int64_t* ooms) {
  const Inside inside(follower->mutex);
  follower->ooms = ooms;
  follower->engage(table, at);
  read_all(*follower, known);
}
void coopsim_disengage(Follower* follower) {
  const Inside inside(follower->mutex);
  follower->disengage();
}
int coopsim_complete(Follower* follower) {
  const Inside inside(follower->mutex);
  return follower->complete();
}

// All that it knows, until the next call.
const int64_t* coopsim_known(Follower* follower) {
  static std::vector<int64_t> all;
  const Inside inside(follower->mutex);
  all = write_all(*follower);
  return all.data();
}

int coopsim_gone(Follower* follower, StorageImpl* storage) {
  const Inside inside(follower->mutex);
  const Cell* cell = follower->cells.find(storage);
  return cell && cell->gone;
}
void coopsim_pin(Follower* follower, StorageImpl* storage) {
  const Inside inside(follower->mutex);
  if (Cell* cell = follower->cells.find(storage)) cell->pinned = true;
}

// Run a call again; how many results there are, each of the first `most` with a reference for Python. -1: Python has an
// error to raise.
int64_t coopsim_run(std::shared_ptr<Call>* call, StorageImpl* const* operands, int64_t n, StorageImpl** results,
                    int64_t most) {
  try {
    Results made = (*call)->run({operands, static_cast<size_t>(n)});
    const auto size = static_cast<int64_t>(made.size());
    for (int64_t i = 0; i < std::min(size, most); i++) results[i] = made[static_cast<size_t>(i)].release();
    return size;
  } catch (const std::exception& why) {
    PyErr_SetString(ran_out(why) ? python_s_out_of_memory() : PyExc_RuntimeError, why.what());
    return -1;
  }
}
void coopsim_hold(StorageImpl* storage) { StoragePtr::reclaim_copy(storage).release(); }
void coopsim_let_go(StorageImpl* storage) { StoragePtr::reclaim(storage); }
void coopsim_free_call(std::shared_ptr<Call>* call) { delete call; }

// Let reading a storage raise an error with this text, which builds of PyTorch without CUDA do not offer to Python.
void coopsim_trap(StorageImpl* storage, const char* error) {
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(std::string(error));
}

// Swap the memory of two storages, which PyTorch offers to Python from 2.12 on.
void coopsim_swap(StorageImpl* one, StorageImpl* other) { coopsim::swap(one, other); }

int coopsim_count(Follower* follower, StorageImpl* storage) { return follower->account->add(storage); }

Table* coopsim_table(const int64_t* numbers, const char* const* names, const char* const* overloads) {
  return read_table(numbers, names, overloads);
}
void coopsim_free_table(Table* table) { delete table; }
}
