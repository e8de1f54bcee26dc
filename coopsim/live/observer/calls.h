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

  // storage null: a tensor without bytes.
  at::Tensor on(StorageImpl* storage) const {
    if (!storage) return at::empty_strided(sizes, strides, at::TensorOptions(device).dtype(dtype));
    return tensor_on(StoragePtr::reclaim_copy(storage), dtype, sizes, strides, offset);
  }
};

class Call {
 public:
  // Of what is on top of the stack. random: it draws from a generator.
  Call(const OperatorHandle& op, const Stack& stack, const std::vector<int32_t>& tensors,
       const std::vector<int32_t>& made, c10::DeviceType kind, bool random)
      : op_(op), made_(made), kind_(kind), gradients_(c10::GradMode::is_enabled()) {
    const size_t n = op.schema().arguments().size();
    const IValue* first = stack.data() + (stack.size() - n);
    args_.assign(first, first + n);
    const Below below;
    for (const int32_t i : tensors) {
      const IValue& value = args_[i];
      if (value.isTensor()) {
        slots_.push_back({i, 0, slot(value.toTensor(), args_[i])});
      } else if (value.isList()) {
        // The list is ours from here on.
        c10::List<IValue> mine = value.toList().copy();
        for (size_t k = 0; k < mine.size(); k++) {
          const IValue one = mine.get(k);
          if (!one.isTensor()) continue;
          IValue kept;
          slots_.push_back({i, static_cast<int32_t>(k) + 1, slot(one.toTensor(), kept)});
          if (slots_.back().spec < 0) mine.set(k, kept);
          else if (value.isTensorList()) mine.set(k, at::Tensor());
          else mine.set(k, IValue());
        }
        args_[i] = std::move(mine);
      }
    }
    if (random) draw_from(first, n);
  }

  // Run it again, on storages by position of its operands; gives those of its results, by position.
  std::vector<StoragePtr> run(const std::vector<StorageImpl*>& operands) const {
    const Below below;
    const c10::AutoGradMode gradients(gradients_);
    Stack stack(args_.begin(), args_.end());
    lay(stack, operands);
    {
      std::optional<Redrawn> redrawn;
      if (generator_) redrawn.emplace(*generator_, state_);
      op_.callBoxed(&stack);
    }
    std::vector<StoragePtr> results;
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
      specs_.emplace_back(tensor);
      const auto spec = static_cast<int32_t>(specs_.size()) - 1;
      kept = IValue();
      return spec;
    }
    // On another device: the program may change it. A number in a tensor's clothes nobody changes.
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) kept = IValue(tensor);
    else kept = IValue(tensor.detach().clone());
    return -1;
  }

  void draw_from(const IValue* args, size_t n) {
    for (size_t i = 0; i < n; i++)
      if (args[i].isGenerator()) generator_ = args[i].toGenerator();
    if (!generator_) {
      const auto index = kind_ == c10::DeviceType::CPU ? -1 : at::detail::getCUDAHooks().getCurrentDevice();
      generator_ = at::globalContext().defaultGenerator(c10::Device(kind_, static_cast<c10::DeviceIndex>(index)));
    }
    const std::lock_guard<std::mutex> lock(generator_->mutex());
    state_ = generator_->get_state();
  }

  void lay(Stack& stack, const std::vector<StorageImpl*>& operands) const {
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

  void results_of(const IValue& value, std::vector<StoragePtr>& results) const {
    if (value.isTensor()) {
      if (counts(value.toTensor(), kind_)) results.push_back(pointer_to(value.toTensor()));
    } else if (value.isList()) {
      for (const IValue& one : value.toListRef()) results_of(one, results);
    }
  }

  OperatorHandle op_;
  std::vector<int32_t> made_;
  c10::DeviceType kind_;
  bool gradients_;
  std::vector<IValue> args_;
  std::vector<Slot> slots_;
  std::vector<Spec> specs_;  // by position of the operand
  std::optional<at::Generator> generator_;
  at::Tensor state_;
};

}  // namespace coopsim
