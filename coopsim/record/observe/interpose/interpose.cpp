// A kernel that every op of a thread passes before the device's kernel: below autograd and autocast, and below dispatch
// modes and tensor subclasses (modes.h). It passes the op to the recorders, the last one entered first.
//
// It is the fallback of a dispatch key that no tensor has and no other library uses, and that `include` adds to the
// keys of a thread; autograd's threads inherit it. So no dispatch mode is active, because of which autograd's formulas
// would avoid in-place ops.
#include <torch/library.h>

#include "memory.h"
#include "recorders.h"

namespace coopsim {
namespace {

bool is_meta(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() && tensor.storage().device_type() == c10::DeviceType::Meta;
}

// Returns whether it is an op on tensors without data, which stand for others, as while a program is compiled.
bool stands_for_another(c10::DispatchKeySet keys, const Schema& schema, const Stack& stack) {
  if (keys.has_backend(c10::BackendComponent::MetaBit)) return true;
  const Values args = torch::jit::last(stack, schema.given);
  return std::any_of(args.begin(), args.end(), [](const IValue& v) { return v.isTensor() && is_meta(v.toTensor()); });
}

// Returns whether it is a composite op, whose parts come here one by one. Autograd decomposes ops, except in inference
// mode.
bool is_composite(const OperatorHandle& op, c10::DispatchKeySet keys) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(keys.highestPriorityTypeId());
}

// Whether it is lift_fresh, the end of torch.tensor, of which recorders see nothing else, on a tensor of the device.
bool lifts(const Schema& schema, const Stack& stack) {
  if (!schema.is(LIFTS)) return false;
  const IValue& value = torch::jit::last(stack, schema.given)[0];
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda();
}

// Other views are not passed to recorders: Python would make objects for views that have none.
void interpose(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, KEY);
  if (pass_modes(op, below, stack)) return;
  const Schema& schema = schemas().of(op);
  const int left = recorders_left();
  if (!left || (schema.views && !lifts(schema, *stack)) || stands_for_another(keys, schema, *stack)) return ask(0, schema, below, stack);
  if (is_composite(op, below)) return op.redispatchBoxed(below, stack);
  ask(left, schema, below, stack);
}

Native& native() {
  static auto* one = new Native();
  return *one;
}

int64_t copy(const std::vector<Entry>& entries, Entry* out, int64_t room) {
  const auto n = static_cast<int64_t>(entries.size());
  std::copy_n(entries.begin(), std::min(n, room), out);
  return n;
}

}  // namespace
}  // namespace coopsim

TORCH_LIBRARY_IMPL(_, Fake, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&coopsim::interpose>()); }

// The functions that library.py calls. Tensors and storages are given by address, ops and modules by number.
extern "C" {
using namespace coopsim;

// Sends the ops of this thread, and of threads that inherit its state, to the kernel.
void coopsim_include(int on) { c10::impl::tls_set_dispatch_key_included(KEY, on); }
// With 1, hides this thread's ops from recorders; 0 undoes that. Returns what it was before.
int coopsim_exclude(int on) {
  const bool was = c10::impl::tls_is_dispatch_key_excluded(KEY);
  c10::impl::tls_set_dispatch_key_excluded(KEY, on);
  return was;
}
// Makes the dispatch mode on top of this thread's stack a recorder. Returns 0 if there is no room for another.
int coopsim_enter(int with_native, int lifts) { return enter_mode_on_top(with_native ? &native() : nullptr, lifts); }
void coopsim_leave() { leave(); }

// Reports the allocator's frees to the ledger from now on, and the ops of modes to the kernel (modes.h). To be called
// with a mode on the stack.
void coopsim_tell() {
  pass_by(TorchDispatchModeTLS::get_stack_at(TorchDispatchModeTLS::stack_len() - 1)->pyinterpreter());
  tell(native().ledger, python());
}
// Clears the ledger. Does nothing and returns 0 while there are recorders, which use it.
int coopsim_forget() {
  if (n_recorders) return 0;
  native().ledger.forget();
  return 1;
}
Account* coopsim_account() { return &native().ledger.account; }
// Writes the storage of a tensor, and returns its serial; 0 if it has no bytes.
int64_t coopsim_of(const at::TensorImpl* tensor, Entry* out) {
  Entry* entry = native().ledger.of(tensor);
  if (!entry) return 0;
  entry->known |= TO_PYTHON;
  *out = *entry;
  return entry->serial;
}
int64_t coopsim_of_storage(StorageImpl* storage, Entry* out) {
  Entry* entry = native().ledger.of(storage);
  if (!entry) return 0;
  entry->known |= TO_PYTHON;
  *out = *entry;
  return entry->serial;
}
void coopsim_look_at_peak() { native().ledger.look_at_peak(); }
// These return how many storages there are, and write the first `room` of them.
int64_t coopsim_alive(Entry* out, int64_t room) { return copy(native().ledger.alive(TO_PYTHON), out, room); }
int64_t coopsim_at_most(Entry* out, int64_t room) { return copy(native().ledger.at_most(), out, room); }
int64_t coopsim_gone(int64_t* out, int64_t room) { return native().ledger.gone_for_python(out, room); }
// Sets whether the values of a tensor's storage are known.
void coopsim_values(const at::TensorImpl* tensor, int known) {
  Entry* entry = native().ledger.of(tensor);
  if (entry) entry->known = known ? entry->known | VALUES : entry->known & ~VALUES;
  if (known) native().knows_values = true;
}

// From now on, sets or does not set the bit TOUCHED of storages that ops read or write. With 1, clears it first.
void coopsim_note_touched(int on) {
  if (on) native().ledger.untouch();
  native().notes_touched = on;
}

void coopsim_describe(Describe describe) { schemas().describe = describe; }
void coopsim_device(const Device* device) { native().costs.device = *device; }
void coopsim_all_to_python(int on) { native().all_to_python = on; }
// Sets the time of the call that Python is watching, in ns, if it was not known.
void coopsim_cost(int64_t ns) {
  if (Native::asked_for()) native().costs.learn(Native::asked_for(), ns);
}
int64_t coopsim_running(int64_t* module) {
  *module = native().running_module;
  return native().running_op;
}
int64_t coopsim_name(int64_t op, char* out, int64_t room) {
  return snprintf(out, static_cast<size_t>(room), "%s", schemas().name(op).c_str());
}
void coopsim_module(int64_t module, int64_t sequence) { native().modules.enter(module, sequence); }
void coopsim_forget_modules() { native().modules.forget(); }
// Returns whether an op has run in a backward pass since this was last called with 1.
int coopsim_backward_done(int reset) {
  const int64_t was = native().modules.backward_done;
  if (reset) native().modules.backward_done = 0;
  return was != 0;
}

// Returns the address of a tensor's storage, and writes its bytes, without making a Python object; 0 without a storage.
int64_t coopsim_storage(const at::TensorImpl* tensor, int64_t* nbytes) {
  *nbytes = 0;
  if (!tensor->has_storage()) return 0;
  StorageImpl* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  *nbytes = static_cast<int64_t>(storage->nbytes());
  return reinterpret_cast<int64_t>(storage->_mutable_data_ptr_no_checks().get());
}
}
