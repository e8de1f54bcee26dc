// A recorder that calls Python only for the few ops that need it (native.py).
#pragma once

#include "costs.h"
#include "ledger.h"
#include "modules.h"

namespace coopsim {

struct Native {
  Ledger ledger;
  Costs costs;
  Modules modules;
  std::atomic<int64_t> running_op{-1}, running_module{-1};  // of the op that began last
  std::atomic<bool> all_to_python{false};
  std::atomic<bool> knows_values{false};  // whether there may be storages whose values are known
  std::atomic<bool> notes_touched{false};  // whether storages that ops read or write get the bit TOUCHED

  // Signature of the call whose time Python is to compute; 0: of none.
  static uint64_t& asked_for() {
    thread_local uint64_t signature = 0;
    return signature;
  }
};

// One call of an op. `down` calls the op itself; `to_python` has Python watch it and call it.
class Watched {
 public:
  Watched(Native& native, const Schema& schema, Stack& stack) : native_(native), schema_(schema), stack_(stack) {}

  template <typename Down, typename ToPython>
  void run(const Down& down, const ToPython& to_python) {
    native_.running_op = schema_.number;
    native_.running_module = module_ = native_.modules.here();
    if (native_.notes_touched) touch();
    int64_t ns = -1;
    if (for_python(&ns)) {
      to_python();
      Native::asked_for() = 0;
    } else if (schema_.is(LIFTS)) {
      down();
      each_on_device(results()[0], [&](const at::Tensor& tensor) { enter(tensor); });
    } else {
      if (native_.costs.device.op_begins) native_.costs.device.op_begins();
      look_before();
      down();
      look_after(ns);
    }
    native_.ledger.look_at_peak();
  }

 private:
  Values args() const { return torch::jit::last(stack_, schema_.given); }
  Values results() const { return torch::jit::last(stack_, schema_.returned); }
  const IValue& arg(int64_t i) const { return args()[static_cast<size_t>(i)]; }

  void touch() const {
    for (const uint16_t i : schema_.tensors)
      each_on_device(arg(i), [&](const at::Tensor& tensor) {
        if (Entry* entry = native_.ledger.of(tensor.unsafeGetTensorImpl())) entry->known |= TOUCHED;
      });
  }

  // Otherwise the time of a call with BY_SHAPE is written.
  bool for_python(int64_t* ns) const {
    if (native_.all_to_python || schema_.is(FOR_PYTHON)) return true;
    if (schema_.is(LIFTS)) return is_integral(arg(0).toTensor().scalar_type());
    if (schema_.is(COPIES) && (gives_to_host() || takes_integers_from_host() || makes_integers_of_truths())) return true;
    if (schema_.is(CONSTANT) && makes_integers()) return true;
    if (schema_.is(COUNTS) && is_of(arg(0), at::kBool)) return true;
    if (schema_.is(SELECTS) && selects_by_mask()) return true;
    if (native_.knows_values && works_on_known_values()) return true;
    if (!schema_.is(BY_SHAPE)) return false;
    Signature signature(schema_, precision_settings());
    for (const IValue& value : args()) signature.add(value);
    if (native_.costs.known(signature.value(), ns)) return false;
    Native::asked_for() = signature.value();
    return true;
  }

  // For copy_ and _to_copy: whether data go from the device to the host.
  bool gives_to_host() const {
    const auto is_cuda = [&](const IValue& value) { return value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda(); };
    if (schema_.tensors.size() > 1) return is_cuda(arg(1)) && !is_cuda(arg(0));  // from the second to the first
    for (const IValue& value : args())
      if (value.isDevice()) return is_cuda(arg(0)) && !value.toDevice().is_cuda();
    return false;
  }

  static bool is_of(const IValue& value, c10::ScalarType type) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().scalar_type() == type;
  }

  static bool is_integral(c10::ScalarType type) { return c10::isIntegralType(type, /*includeBool=*/true); }

  // For copy_ and _to_copy: whether integers or truth values go from the host to the device.
  bool takes_integers_from_host() const {
    const IValue& from = schema_.tensors.size() > 1 ? arg(1) : arg(0);
    return from.isTensor() && from.toTensor().defined() && from.toTensor().is_cpu() && is_integral(from.toTensor().scalar_type());
  }

  // For _to_copy: whether truth values become integers, which are a mask then, too.
  bool makes_integers_of_truths() const {
    if (!is_of(arg(0), at::kBool) || schema_.dtype < 0 || !arg(schema_.dtype).isInt()) return false;
    const auto type = static_cast<c10::ScalarType>(arg(schema_.dtype).toInt());
    return c10::isIntegralType(type, /*includeBool=*/false);
  }

  // For ops that make constants: whether these are integers or truth values.
  bool makes_integers() const {
    const IValue none;
    const IValue& type = schema_.dtype < 0 ? none : arg(schema_.dtype);
    if (type.isInt()) return is_integral(static_cast<c10::ScalarType>(type.toInt()));
    if (arg(0).isTensor()) return is_integral(arg(0).toTensor().scalar_type());
    return std::any_of(args().begin(), args().end(), [](const IValue& v) { return v.isBool() || v.isInt(); });
  }

  // For index: whether a mask selects, so that the size of the result depends on data.
  bool selects_by_mask() const {
    bool any = false;
    each_tensor(arg(1), [&](const at::Tensor& index) {
      any |= index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
    });
    return any;
  }

  bool works_on_known_values() const {
    bool known = false;
    for (const uint16_t i : schema_.tensors)
      each_on_device(arg(i), [&](const at::Tensor& tensor) {
        const Entry* entry = native_.ledger.of(tensor.unsafeGetTensorImpl());
        known |= entry && (entry->known & VALUES);
      });
    return known;
  }

  // Returns the arguments whose data this call changes, one bit each (effects.py: mutated).
  int64_t changes() const {
    const Description& said = schema_.said;
    int64_t found = said.changes;
    if (said.if_given && arg(said.given).isNone()) found &= ~said.if_given;
    for (size_t i = 0; said.true_flags >> i; i++)
      if (said.true_flags >> i & 1 && arg(static_cast<int64_t>(i)).isBool() && !arg(static_cast<int64_t>(i)).toBool())
        found &= ~said.if_true;
    return found;
  }

  void look_before() {
    changes_ = changes();
    for (const uint16_t i : schema_.tensors) {
      const bool changed = changes_ >> i & 1;
      const bool later = std::find(schema_.written.begin(), schema_.written.end(), i) != schema_.written.end();
      if (!later) nbytes_ += bytes_in(arg(i)) * (changed ? 2 : 1);
    }
    for (const uint16_t i : schema_.positional)
      each_tensor(arg(i), [&](const at::Tensor& tensor) {
        // a number is no tensor to Python
        if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
        if (dtype_ == at::kByte && c10::isFloatingType(tensor.scalar_type())) dtype_ = tensor.scalar_type();
      });
    if (schema_.given && arg(0).isTensor() && arg(0).toTensor().defined() && arg(0).toTensor().layout() == at::kStrided) {
      const at::Tensor& first = arg(0).toTensor();
      first_type_ = first.scalar_type();
      first_strides_.assign(first.strides().begin(), first.strides().end());
    }
  }

  // `known`: the time, or -1 if it is that of the bytes.
  void look_after(int64_t known) {
    bool made = false;
    int64_t made_bytes = 0;
    for (size_t r = 0; r < schema_.returned; r++) {
      const IValue& result = results()[r];
      const int64_t nbytes = bytes_in(result);
      made_bytes += nbytes;
      if (!schema_.written.empty()) nbytes_ += nbytes * (changes_ >> schema_.written[r] & 1 ? 2 : 1);
      each_on_device(result, [&](const at::Tensor& tensor) { made |= look_at(tensor); });
    }
    if (made) nbytes_ += made_bytes;
    const Device& device = native_.costs.device;
    if (!device.op_ends) return;
    const bool costs = (made || changes_) && nbytes_ && !schema_.is(OTHERS_TIME);
    const bool half = dtype_ == at::kHalf || dtype_ == at::kBFloat16;
    const int64_t ns = !costs ? 0 : known < 0 ? Costs::moving(schema_.said, nbytes_, half) : known;
    device.op_ends(ns ? native_.costs.stream() : nullptr, static_cast<uint64_t>(ns));
  }

  // Enters a result's storage, and returns it if the op has made it; else null.
  Entry* enter(const at::Tensor& tensor) {
    bool fresh = false;
    Entry* entry = native_.ledger.of(tensor.unsafeGetTensorImpl(), &fresh);
    if (!fresh) return nullptr;
    entry->op = schema_.number;
    entry->module = module_;
    return entry;
  }

  // The same, and returns whether the op has made it.
  bool look_at(const at::Tensor& tensor) {
    const Entry* entry = enter(tensor);
    if (!entry) return false;
    // No kernel has written the result: zero it, unless it may be a plain copy, which is done for real.
    const bool copied = first_type_ == tensor.scalar_type() && tensor.strides() == c10::IntArrayRef(first_strides_);
    if (!copied && native_.costs.device.clear)
      native_.costs.device.clear(reinterpret_cast<void*>(entry->address), static_cast<size_t>(entry->nbytes));
    return true;
  }

  Native& native_;
  const Schema& schema_;
  Stack& stack_;
  int64_t module_ = -1, changes_ = 0, nbytes_ = 0;
  c10::ScalarType dtype_ = at::kByte;  // of the first floating-point operand; kByte if there is none
  c10::ScalarType first_type_ = c10::ScalarType::Undefined;
  c10::SmallVector<int64_t, 6> first_strides_;
};

}  // namespace coopsim
