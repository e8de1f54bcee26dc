// What is known about an op, the same for all calls: from its schema, and from Python's description (describe.py).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace coopsim {

using c10::IValue;
using c10::OperatorHandle;

// Bits of Description.flags.
enum Flag : int64_t {
  FOR_PYTHON = 1, BY_SHAPE = 2, OTHERS_TIME = 4, COPIES = 8, SELECTS = 16, CONSTANT = 32, COUNTS = 64, LIFTS = 128
};

// changes: the arguments whose data the op changes, one bit each. Of them, `if_given` are changed only if argument
// number `given` is not None, `if_true` only if the flags among the arguments, `true_flags`, are all true. ns, per_byte:
// the time of a call by its bytes; [1]: if its first floating-point operand has 16 bits. Not of ops with BY_SHAPE.
struct Description {
  int64_t flags, changes, if_given, given, if_true, true_flags;
  double ns[2], per_byte[2];
};
using Describe = void (*)(const char* name, const char* overload, Description* found);

struct Schema {
  const OperatorHandle op;
  const std::string name;  // as Python names it: aten.add.Tensor. Kept, as libraries take their ops back at exit
  int64_t number;
  size_t given, returned;
  bool views = false;  // whether a result is a view of an argument
  std::vector<uint16_t> tensors, positional;  // arguments that can hold tensors; of these the positional
  int64_t dtype = -1;  // the number of the argument `dtype`
  std::vector<uint16_t> written;  // arguments that are written to and returned, in the order of the results
  Description said{};
  bool described = false;

  Schema(const OperatorHandle& op_, int64_t number_) : op(op_), name(named(op_.operator_name())), number(number_) {
    const c10::FunctionSchema& schema = op.schema();
    given = schema.arguments().size();
    returned = schema.returns().size();
    size_t results = 0;
    for (const c10::Argument& one : schema.returns())
      if (const auto* alias = one.alias_info()) {
        views |= !alias->isWrite();
        results += alias->isWrite();
      }
    for (size_t i = 0; i < given; i++) {
      const c10::Argument& one = schema.arguments()[i];
      if (one.name() == "dtype") dtype = static_cast<int64_t>(i);
      if (!takes_tensors(one.type())) continue;
      tensors.push_back(static_cast<uint16_t>(i));
      if (!one.kwarg_only()) positional.push_back(static_cast<uint16_t>(i));
      if (one.alias_info() && one.alias_info()->isWrite()) written.push_back(static_cast<uint16_t>(i));
    }
    if (results != written.size() || results != returned) written.clear();
  }

  bool is(Flag flag) const { return said.flags & flag; }

  static std::string named(const c10::OperatorName& name) {
    std::string found = name.name;
    const size_t colons = found.find("::");
    if (colons != std::string::npos) found.replace(colons, 2, ".");
    return found + "." + (name.overload_name.empty() ? "default" : name.overload_name);
  }

  static bool takes_tensors(c10::TypePtr type) {
    while (type->kind() == c10::TypeKind::OptionalType || type->kind() == c10::TypeKind::ListType)
      type = type->containedType(0);
    return type->kind() == c10::TypeKind::TensorType;
  }
};

class Schemas {
 public:
  std::atomic<Describe> describe{nullptr};

  const Schema& of(const OperatorHandle& op) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = known_.find(op);
      if (found != known_.end() && (found->second->described || !describe)) return *found->second;
    }
    Description said{};  // without the lock, because Python may call ops
    const Describe ask = describe;
    if (ask) ask(op.operator_name().name.c_str(), op.operator_name().overload_name.c_str(), &said);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& schema = known_[op];
    if (!schema) {
      schema = std::make_unique<Schema>(op, static_cast<int64_t>(all_.size()));
      all_.push_back(schema.get());
    }
    if (ask) schema->said = said;
    schema->described = ask != nullptr;
    return *schema;
  }

  // Returns an op's name as Python has it: aten.add.Tensor.
  std::string name(int64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_.at(static_cast<size_t>(number))->name;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<OperatorHandle, std::unique_ptr<Schema>> known_;
  std::vector<Schema*> all_;
};

inline Schemas& schemas() {
  static auto* all = new Schemas();
  return *all;
}

}  // namespace coopsim
