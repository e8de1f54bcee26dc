// An op as this step called it, so that it can be run again.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "operands.h"

extern "C" {
int PyGILState_Ensure(void);
void PyGILState_Release(int);
void* PyErr_Occurred(void);
void PyErr_Clear(void);
int PyErr_GivenExceptionMatches(void*, void*);
void PyErr_SetString(void*, const char*);
extern void* PyExc_RuntimeError;
}

namespace coopsim {

// Kernels written in Python, of which PyTorch has some, say by Python's own error that there was no room.
//
// Python's class of that error.
inline void*& python_s_out_of_memory() {
  static void* kind = nullptr;
  return kind;
}

// An error was caught. Python must know of none of its own any more.
inline void forget_python_s() {
  const int state = PyGILState_Ensure();
  PyErr_Clear();
  PyGILState_Release(state);
}

// Did an op find no room? Then the error is over.
inline bool ran_out(const std::exception& why) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&why)) return true;
  const int state = PyGILState_Ensure();
  void* set = PyErr_Occurred();
  const bool found = set ? PyErr_GivenExceptionMatches(set, python_s_out_of_memory()) != 0
                         : std::strstr(why.what(), "out of memory") != nullptr;
  if (found) PyErr_Clear();
  PyGILState_Release(state);
  return found;
}

// Does the processor take denormal numbers for zero?
inline bool flushes() {
  static volatile double tiny = 1e-310;
  return tiny * 1.0 == 0.0;
}

// How precisely ops on 32-bit numbers compute, by backend (GENERIC, CUDA, MKLDNN) and op (ALL, CONV, RNN, MATMUL). The
// getters of older settings raise where a program has set these.
template <class Context, class Precision, class Backend, class Op, class Add>
  requires std::is_enum_v<Backend>
void add_precisions(Precision (Context::*get)(Backend, Op) const, const Context& c, bool on_cpu, const Add& add) {
  for (const int op : {1, 2, 3}) add((c.*get)(static_cast<Backend>(1), static_cast<Op>(op)));
  for (const int op : {1, 2}) add(c.allowTF32CuDNN(static_cast<Op>(op)));
  for (const int op : {1, 2, 3}) if (on_cpu) add((c.*get)(static_cast<Backend>(2), static_cast<Op>(op)));
}

// How ops compute at present (settings.py), as one number to compare. As a template, so that PyTorch need not have all of
// them. on_cpu: of the ops on the CPU, too.
template <class Context>
int64_t settings_of(Context& c, bool on_cpu) {
  int64_t found = static_cast<int64_t>(c10::typeMetaToScalarType(c10::get_default_dtype()));
  const auto add = [&found](auto value) { found = found * 31 + static_cast<int64_t>(value); };
  add(c.userEnabledCuDNN());
  add(c.benchmarkCuDNN());
  add(c.benchmarkLimitCuDNN());
  add(c.deterministicCuDNN());
  add(c.userEnabledNNPACK());
  add(c.userEnabledMkldnn());
  add(c.deterministicAlgorithms());
  add(c.deterministicAlgorithmsWarnOnly());
  add(c.allowFP16ReductionCuBLAS());
  add(c.allowBF16ReductionCuBLAS());
  add(c.deterministicFillUninitializedMemory());
  add(c.linalgPreferredBackend());
  add(c.blasPreferredBackend());
  add(c.allowFP16BF16ReductionMathSDP());
  add(c.userEnabledFlashSDP());
  add(c.userEnabledMemEfficientSDP());
  add(c.userEnabledMathSDP());
  add(c.userEnabledCuDNNSDP());
  if (on_cpu) {
    add(at::get_num_threads());
    add(flushes());
  }
  if constexpr (requires { c.deterministicMkldnn(); }) add(c.deterministicMkldnn());
  if constexpr (requires { c._SMCarveout_EXPERIMENTAL(); }) add(c._SMCarveout_EXPERIMENTAL().value_or(-1));
  if constexpr (requires { c.allowFP16AccumulationCuBLAS(); }) add(c.allowFP16AccumulationCuBLAS());
  if constexpr (requires { add_precisions(&Context::float32Precision, c, on_cpu, add); }) {
    add_precisions(&Context::float32Precision, c, on_cpu, add);
  } else {
    try {
      add(c.allowTF32CuDNN());
      add(c.float32MatmulPrecision());
    } catch (const std::exception&) {
      add(-1);
    }
  }
  return found;
}

inline int64_t settings(bool on_cpu) { return settings_of(at::globalContext(), on_cpu); }

// Stands for a tensor on the device.
struct Spec {
  caffe2::TypeMeta dtype;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  int64_t offset = 0;
  bool conjugate = false, negative = false;
  c10::SmallVector<int64_t, 5> sizes, strides;

  void become(const at::Tensor& tensor) {
    dtype = tensor.dtype();
    device = tensor.device();
    offset = tensor.storage_offset();
    conjugate = tensor.is_conj();
    negative = tensor.is_neg();
    sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    strides.assign(tensor.strides().begin(), tensor.strides().end());
  }

  // storage null: a tensor without bytes.
  at::Tensor on(StorageImpl* storage) const {
    if (!storage) return at::empty_strided(sizes, strides, at::TensorOptions(device).dtype(dtype));
    at::Tensor found = tensor_on(StoragePtr::reclaim_copy(storage), dtype, sizes, strides, offset);
    if (conjugate) found._set_conj(true);
    if (negative) found._set_neg(true);
    return found;
  }
};

using Results = c10::SmallVector<StoragePtr, 4>;  // of an op, by position

enum class Draws : int64_t { nothing, own, any };  // what an op may draw from (operands.py)

// The states of generators, as they were before an op ran (operands.py).
class Drawn {
 public:
  void keep(Draws what, const Stack& stack, size_t n, c10::DeviceType kind) {
    const Below below;
    const IValue* args = stack.data() + (stack.size() - n);
    for (size_t i = 0; i < n; i++)
      if (args[i].isGenerator()) add(args[i].toGenerator());
    auto& context = at::globalContext();
    const bool on_gpu = kind == c10::DeviceType::CUDA;
    if (what == Draws::any) {
      add(context.defaultGenerator(c10::DeviceType::CPU));
      const auto gpus = on_gpu ? c10::impl::getDeviceGuardImpl(kind)->deviceCount() : 0;
      for (c10::DeviceIndex i = 0; i < gpus; i++) add(context.defaultGenerator(c10::Device(kind, i)));
    } else if (states_.empty()) {
      add(context.defaultGenerator(on_gpu ? device_of(args, n, kind) : c10::Device(kind)));
    }
  }

  void clear() { states_.clear(); }

  void restore() const {
    for (const auto& [generator, state] : states_) {
      at::Generator own = generator;
      const std::lock_guard<std::mutex> lock(own.mutex());
      own.set_state(state);
    }
  }

  Drawn now() const {
    Drawn found;
    for (const auto& [generator, state] : states_) found.add(generator);
    return found;
  }

 private:
  void add(const at::Generator& generator) {
    at::Generator own = generator;
    const std::lock_guard<std::mutex> lock(own.mutex());
    states_.emplace_back(own, own.get_state());
  }

  static c10::Device device_of(const IValue* args, size_t n, c10::DeviceType kind) {
    for (size_t i = 0; i < n; i++) {
      if (args[i].isTensor() && args[i].toTensor().defined() && args[i].toTensor().device().type() == kind)
        return args[i].toTensor().device();
      if (args[i].isDevice() && args[i].toDevice().type() == kind && args[i].toDevice().has_index())
        return args[i].toDevice();
    }
    return c10::impl::getDeviceGuardImpl(kind)->getDevice();
  }

  c10::SmallVector<std::pair<at::Generator, at::Tensor>, 1> states_;
};

class Call {
 public:
  // Become the call of what is on top of the stack, with the memory that an earlier one has left. tensors, made: the
  // positions of tensors among arguments and results. drawn: what it may draw from.
  void keep(const OperatorHandle& op, const Stack& stack, c10::ArrayRef<int32_t> tensors,
            c10::ArrayRef<int32_t> made, c10::DeviceType kind, Drawn drawn) {
    op_ = op;
    made_.assign(made.begin(), made.end());
    kind_ = kind;
    gradients_ = c10::GradMode::is_enabled();
    const size_t n = op.schema().arguments().size();
    const IValue* first = stack.data() + (stack.size() - n);
    slots_.clear();
    used_ = 0;
    args_.resize(n);
    auto tensor = tensors.begin();
    for (size_t i = 0; i < n; i++) {
      const bool holds = tensor != tensors.end() && *tensor == static_cast<int32_t>(i);
      if (holds) tensor++;
      if (!holds || first[i].isNone()) args_[i] = first[i];
      else if (first[i].isTensor()) slots_.push_back({static_cast<int32_t>(i), 0, slot(first[i].toTensor(), args_[i])});
      else args_[i] = list(first[i], static_cast<int32_t>(i));
    }
    drawn_ = std::move(drawn);
  }

  // It will not run again.
  void let_go() {
    if (tensors_) args_.clear();
    tensors_ = false;
    drawn_.clear();
  }

  // Run it again, on storages by position of its operands; gives those of its results, by position.
  Results run(c10::ArrayRef<StorageImpl*> operands) const {
    const Below below;
    const c10::AutoGradMode gradients(gradients_);
    Stack stack(args_.begin(), args_.end());
    lay(stack, operands);
    const Drawn now = drawn_.now();
    drawn_.restore();
    const auto back = c10::make_scope_exit([&now] { now.restore(); });
    op_->callBoxed(&stack);
    Results results;
    for (const int32_t i : made_)
      each(stack[i], kind_, [&](const at::Tensor& tensor) { results.push_back(pointer_to(tensor)); });
    return results;
  }

 private:
  struct Slot {
    int32_t argument, element, spec;  // element: of a list, counted from 1; spec -1: the argument is as it was
  };

  int32_t slot(const at::Tensor& tensor, IValue& kept) {
    if (counts(tensor, kind_)) {
      if (used_ == static_cast<int32_t>(specs_.size())) specs_.emplace_back();
      specs_[used_].become(tensor);
      kept = IValue();
      return used_++;
    }
    tensors_ = true;
    // On another device: the program may change it. A number in a tensor's clothes nobody changes.
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      kept = IValue(tensor);
    } else {
      const Below below;
      kept = IValue(tensor.detach().clone());
    }
    return -1;
  }

  // What is kept of a list; it is ours from here on.
  IValue list(const IValue& value, int32_t argument) {
    if (!value.isList()) return value;
    c10::List<IValue> mine = value.toList().copy();
    for (size_t k = 0; k < mine.size(); k++) {
      const IValue one = mine.get(k);
      if (!one.isTensor()) continue;
      IValue kept;
      slots_.push_back({argument, static_cast<int32_t>(k) + 1, slot(one.toTensor(), kept)});
      if (slots_.back().spec < 0) mine.set(k, kept);
      else if (value.isTensorList()) mine.set(k, at::Tensor());
      else mine.set(k, IValue());
    }
    return mine;
  }

  void lay(Stack& stack, c10::ArrayRef<StorageImpl*> operands) const {
    int32_t list = -1;
    for (const Slot& s : slots_) {
      if (s.element && s.argument != list) {
        list = s.argument;
        stack[list] = stack[list].toList().copy();
      }
      if (s.spec < 0) continue;
      at::Tensor tensor = specs_[s.spec].on(operands.at(s.spec));
      if (!s.element) stack[s.argument] = std::move(tensor);
      else stack[list].toList().set(s.element - 1, std::move(tensor));
    }
  }

  std::optional<OperatorHandle> op_;
  c10::SmallVector<int32_t, 4> made_;
  c10::DeviceType kind_ = c10::DeviceType::CPU;
  bool gradients_ = false;
  c10::SmallVector<IValue, 8> args_;
  c10::SmallVector<Slot, 4> slots_;
  c10::SmallVector<Spec, 3> specs_;  // by position of the operand, the first `used_`
  int32_t used_ = 0;
  bool tensors_ = false;  // are there any among `args_`?
  Drawn drawn_;
};

}  // namespace coopsim
