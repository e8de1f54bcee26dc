// A plan's rows, as Python has written them into one array of numbers.
#pragma once

#include <c10/util/ArrayRef.h>

#include <memory_resource>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "calls.h"

namespace coopsim {

struct Value {
  int32_t storage, version;
  bool operator==(const Value& other) const { return storage == other.storage && version == other.version; }
};

struct Watch {
  int32_t position, storage;
};

enum class Kind : int64_t { evict, drop, again, offload, leave, fetch, arrive };

enum class Repeats : int64_t { never, failed, always };  // when an op can be run again (operands.py)

using c10::ArrayRef;  // arrays are in the table's memory, in the order of its rows: steps read them in that order

struct Action {
  Kind kind;
  Value value{};                          // of all but `again`
  int64_t at = 0;                         // where on the host, to offload
  int32_t op = -1;                        // to run again
  ArrayRef<Value> targets, takeovers;  // what is kept of what it makes
};

// What an op of the trace does, for those that may be run again. Storages by position are -1 where the trace has none.
struct Made {
  ArrayRef<int32_t> inputs, results, mutates;
  ArrayRef<Value> reads, writes;
  bool restarts = false;  // it may run again on what it has changed, after it ran out of memory
};

// What every op needs comes first, in one line of the processor's cache.
struct Row {
  std::optional<OperatorHandle> op;
  int32_t call = -1;  // keep the call of this op
  bool idle = false;     // there is nothing to do but to run the op
  bool bounded = false;  // `elements` is not empty
  bool changes = false, creates = false;
  bool views = false;    // there is nothing to do, whether or not its operands have memory
  bool sums = false;     // may stand for aten.add (sums.h)
  bool watches = false;  // its operands matter
  Repeats repeats = Repeats::always;
  Draws draws = Draws::nothing;
  uint32_t given = 0, returned = 0;
  ArrayRef<int32_t> tensors, made;  // positions of tensors among arguments and results
  ArrayRef<int64_t> elements;  // of the operands, where the program's data enter: they must not be more
  ArrayRef<Watch> look, find;
  ArrayRef<Value> makes, copies, keep;
  ArrayRef<Action> before;
};

struct Table {
  std::pmr::monotonic_buffer_resource memory;
  c10::DeviceType kind;
  size_t storages;
  std::vector<Row> rows;
  std::vector<Made> ops;
};

// Reads the numbers that observed.py writes, in its order.
class Reader {
 public:
  Reader(const int64_t* at, std::pmr::memory_resource* memory) : at_(at), memory_(memory) {}

  int64_t next() { return *at_++; }
  int32_t number() { return static_cast<int32_t>(next()); }

  template <class Number>
  ArrayRef<Number> numbers() {
    return array<Number>(next(), [this] { return static_cast<Number>(next()); });
  }

  template <class Pair>
  ArrayRef<Pair> pairs() {
    return array<Pair>(next(), [this] {
      const int32_t first = number();
      return Pair{first, number()};
    });
  }

  template <class One, class Make>
  ArrayRef<One> array(int64_t n, Make make) {
    auto* const all = static_cast<One*>(memory_->allocate(static_cast<size_t>(n) * sizeof(One), alignof(One)));
    for (int64_t i = 0; i < n; i++) new (all + i) One(make());
    return {all, static_cast<size_t>(n)};
  }

  ArrayRef<int32_t> positions(const std::vector<int32_t>& found) {
    auto one = found.begin();
    return array<int32_t>(static_cast<int64_t>(found.size()), [&one] { return *one++; });
  }

  Action action() {
    Action action{static_cast<Kind>(next())};
    if (action.kind == Kind::again) {
      action.op = number();
      action.targets = pairs<Value>();
      action.takeovers = pairs<Value>();
    } else {
      const int32_t storage = number();
      action.value = {storage, number()};
      action.at = next();
    }
    return action;
  }

  Made made() {
    Made made;
    made.inputs = numbers<int32_t>();
    made.results = numbers<int32_t>();
    made.mutates = numbers<int32_t>();
    made.reads = pairs<Value>();
    made.writes = pairs<Value>();
    made.restarts = next() != 0;
    return made;
  }

  Row row() {
    Row row;
    row.call = number();
    row.changes = next() != 0;
    row.repeats = static_cast<Repeats>(next());
    row.draws = static_cast<Draws>(next());
    row.creates = next() != 0;
    row.views = next() != 0;
    row.elements = numbers<int64_t>();
    row.look = pairs<Watch>();
    row.find = pairs<Watch>();
    row.makes = pairs<Value>();
    row.copies = pairs<Value>();
    row.keep = pairs<Value>();
    row.before = array<Action>(next(), [this] { return action(); });
    return row;
  }

 private:
  const int64_t* at_;
  std::pmr::memory_resource* memory_;
};

inline Table* read_table(const int64_t* numbers, const char* const* names, const char* const* overloads) {
  static const OperatorHandle adds = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add_", "Tensor");
  auto table = std::make_unique<Table>();
  Reader reader(numbers, &table->memory);
  table->kind = reader.next() ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
  table->storages = static_cast<size_t>(reader.next());
  table->ops.resize(static_cast<size_t>(reader.next()));
  for (int64_t n = reader.next(); n > 0; n--) {
    const auto op = static_cast<size_t>(reader.next());
    table->ops.at(op) = reader.made();
  }
  for (int64_t i = 0, n = reader.next(); i < n; i++) {
    Row row = reader.row();
    row.op = c10::Dispatcher::singleton().findSchema({names[i], overloads[i]});
    if (row.op) {
      const c10::FunctionSchema& schema = row.op->schema();
      row.given = static_cast<uint32_t>(schema.arguments().size());
      row.returned = static_cast<uint32_t>(schema.returns().size());
      row.tensors = reader.positions(tensors_of(schema.arguments()));
      row.made = reader.positions(tensors_of(schema.returns()));
      row.sums = *row.op == adds;
    }
    row.watches = !row.look.empty() || !row.before.empty() || row.changes || (row.creates && table->kind == c10::DeviceType::CPU);
    row.bounded = !row.elements.empty();
    row.idle = table->kind == c10::DeviceType::CUDA && row.call < 0 && !row.watches && row.find.empty() &&
               row.makes.empty() && row.copies.empty() && row.keep.empty();
    table->rows.push_back(std::move(row));
  }
  return table.release();
}

}  // namespace coopsim
