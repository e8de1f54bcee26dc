// An op as this step called it, so that it can be run again.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <mutex>
#include <optional>
#include <vector>

#include "operands.h"

namespace coopsim {

// Stands for a tensor on the device.
struct Spec {
  caffe2::TypeMeta dtype;
  c10::Device device;
  int64_t offset;
  c10::SmallVector<int64_t, 5> sizes, strides;

  explicit Spec(const at::Tensor& tensor)
      : dtype(tensor.dtype()), device(tensor.device()), offset(tensor.storage_offset()),
        sizes(tensor.sizes().begin(), tensor.sizes().end()), strides(tensor.strides().begin(), tensor.strides().end()) {}

  void become(const at::Tensor& tensor) {
    dtype = tensor.dtype();
    device = tensor.device();
    offset = tensor.storage_offset();
    sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    strides.assign(tensor.strides().begin(), tensor.strides().end());
  }

  // storage null: a tensor without bytes.
  at::Tensor on(StorageImpl* storage) const {
    if (!storage) return at::empty_strided(sizes, strides, at::TensorOptions(device).dtype(dtype));
    return tensor_on(StoragePtr::reclaim_copy(storage), dtype, sizes, strides, offset);
  }
};

using Results = c10::SmallVector<StoragePtr, 4>;  // of an op, by position

class Call {
 public:
  // Become the call of what is on top of the stack, with the memory that an earlier one has left. tensors, made: the
  // positions of tensors among arguments and results. random: it draws from a generator.
  void keep(const OperatorHandle& op, const Stack& stack, c10::ArrayRef<int32_t> tensors,
            c10::ArrayRef<int32_t> made, c10::DeviceType kind, bool random) {
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
    generator_.reset();
    if (random) draw_from(first, n);
  }

  // It will not run again.
  void let_go() {
    if (tensors_) args_.clear();
    tensors_ = false;
    generator_.reset();
    state_.reset();
  }

  // Run it again, on storages by position of its operands; gives those of its results, by position.
  Results run(c10::ArrayRef<StorageImpl*> operands) const {
    const Below below;
    const c10::AutoGradMode gradients(gradients_);
    Stack stack(args_.begin(), args_.end());
    lay(stack, operands);
    {
      std::optional<Redrawn> redrawn;
      if (generator_) redrawn.emplace(*generator_, state_);
      op_->callBoxed(&stack);
    }
    Results results;
    for (const int32_t i : made_) results_of(stack[i], results);
    return results;
  }

 private:
  struct Slot {
    int32_t argument, element, spec;  // element: of a list, counted from 1; spec -1: the argument is as it was
  };

  // The generator stands where it did, and afterwards where it is now.
  class Redrawn {
   public:
    Redrawn(const at::Generator& generator, const at::Tensor& state) : generator_(generator) {
      const std::lock_guard<std::mutex> lock(generator_.mutex());
      now_ = generator_.get_state();
      generator_.set_state(state);
    }
    ~Redrawn() {
      const std::lock_guard<std::mutex> lock(generator_.mutex());
      generator_.set_state(now_);
    }

   private:
    at::Generator generator_;
    at::Tensor now_;
  };

  int32_t slot(const at::Tensor& tensor, IValue& kept) {
    if (counts(tensor, kind_)) {
      if (used_ == static_cast<int32_t>(specs_.size())) specs_.emplace_back(tensor);
      else specs_[used_].become(tensor);
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

  void draw_from(const IValue* args, size_t n) {
    const Below below;
    for (size_t i = 0; i < n; i++)
      if (args[i].isGenerator()) generator_ = args[i].toGenerator();
    if (!generator_) {
      const auto index = kind_ == c10::DeviceType::CPU ? -1 : at::detail::getCUDAHooks().getCurrentDevice();
      generator_ = at::globalContext().defaultGenerator(c10::Device(kind_, static_cast<c10::DeviceIndex>(index)));
    }
    const std::lock_guard<std::mutex> lock(generator_->mutex());
    state_ = generator_->get_state();
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

  void results_of(const IValue& value, Results& results) const {
    if (value.isTensor()) {
      if (counts(value.toTensor(), kind_)) results.push_back(pointer_to(value.toTensor()));
    } else if (value.isList()) {
      for (const IValue& one : value.toListRef()) results_of(one, results);
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
  std::optional<at::Generator> generator_;
  at::Tensor state_;
};

}  // namespace coopsim
