// Reads coremltools' objects through Python's C interface: attributes by interned names, ops of a block,
// numbers of objects.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "native/python_api.h"
#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx::python {

namespace nb = nanobind;

// Attributes that are read once per op or variable.
struct AttributeNames {
  PyObject *op, *var_op, *next, *start, *operations, *name, *input_vars, *output_vars, *sym_type, *sym_val, *val, *blocks,
      *inputs, *outputs, *child_ops, *consuming_blocks, *weight_key;
  AttributeNames() {
    const auto intern = [](const char* s) { return PyUnicode_InternFromString(s); };
    op = intern("op"), var_op = intern("_op"), next = intern("next"), start = intern("start"),
    operations = intern("operations");
    name = intern("name"), input_vars = intern("_input_vars"), output_vars = intern("_output_vars");
    sym_type = intern("_sym_type"), sym_val = intern("_sym_val"), val = intern("val"), blocks = intern("blocks");
    inputs = intern("inputs"), outputs = intern("outputs"), child_ops = intern("_child_ops");
    consuming_blocks = intern("consuming_blocks"), weight_key = intern("weight_key");
  }
};
inline const AttributeNames& names() {
  static const AttributeNames all;
  return all;
}

inline nb::object get(nb::handle object, PyObject* name) {
  PyObject* found = PyObject_GetAttr(object.ptr(), name);
  if (found == nullptr) throw nb::python_error();
  return nb::steal(found);
}

// Returns None if there is no such attribute, without raising in between.
inline nb::object find(nb::handle object, PyObject* name) {
  PyObject* found = nullptr;
  const int result = optional_attr(object.ptr(), name, &found);
  if (result < 0) throw nb::python_error();
  return found != nullptr ? nb::steal(found) : nb::none();
}

// The bytes of a str, empty for None. They live as long as the str.
inline std::string_view utf8_of(nb::handle object) {
  if (object.is_none()) return {};
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<size_t>(size)};
}

// Maps objects to numbers. The objects are kept alive elsewhere.
class NumberOf {
 public:
  void put(PyObject* key, uint32_t number) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& s = slot(key);
    used_ += s.key == nullptr ? 1 : 0;
    s = {key, number};
  }
  // Returns kNone if it is not there.
  uint32_t find(PyObject* key) const {
    if (slots_.empty()) return kNone;
    const Slot& s = const_cast<NumberOf*>(this)->slot(key);
    return s.key != nullptr ? s.number : kNone;
  }
  static constexpr uint32_t kNone = UINT32_MAX;

 private:
  struct Slot {
    PyObject* key = nullptr;
    uint32_t number = 0;
  };
  Slot& slot(PyObject* key) {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9e3779b97f4a7c15ULL >> 20 & mask;
    while (slots_[at].key != nullptr && slots_[at].key != key) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 256 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& s : old) {
      if (s.key != nullptr) slot(s.key) = s;
    }
  }
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// Calls f(op) for the ops of a block, which may be a linked list or a list.
template <class F>
void each_op(nb::handle block, const F& f) {
  const nb::object operations = get(block, names().operations);
  if (PyList_Check(operations.ptr())) {
    for (nb::handle op : operations) f(op);
    return;
  }
  for (nb::object at = get(operations, names().start); !at.is_none(); at = get(at, names().next)) f(get(at, names().op));
}

// Calls f(slot name, variable) for all operands of an op, in order.
template <class F>
void each_operand(nb::handle op, const F& f) {
  const nb::object inputs = get(op, names().input_vars);
  PyObject *slot = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(inputs.ptr(), &at, &slot, &value)) {
    if (value == Py_None || utf8_of(slot).starts_with("_")) continue;  // internal to coremltools
    if (PyList_Check(value) || PyTuple_Check(value)) {
      for (nb::handle v : nb::handle(value)) f(slot, v.ptr());
    } else {
      f(slot, value);
    }
  }
}

// Sorts operands given by slot name into the order of the op's slots, with null where one is not given.
// Returns false if they do not fit.
bool place_operands(const Op& op, std::span<const std::pair<std::string_view, Value*>> given, std::vector<Value*>& operands);

// Converts a report to Python.
nb::dict report_of(const PipelineReport& report);

}  // namespace sardonyx::python
