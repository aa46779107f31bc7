#include "native/coreml/samples.h"

#include "native/coreml/objects.h"

namespace sardonyx::python {

size_t Samples::HashOf::operator()(const Meeting& m) const {
  size_t hash = m.size();
  for (const void* p : m) hash = (hash ^ reinterpret_cast<uintptr_t>(p) >> 4) * 0x9e3779b97f4a7c15ULL;
  return hash ^ hash >> 32;
}

Samples::Samples(const nb::dict& functions) {
  other_ = model_.add_function("main").graph().add_input("x", nullptr);
  for (const auto& [name, function] : functions) {
    if (known_) block(function);
  }
}

void Samples::block(nb::handle block) {
  each_op(block, [&](nb::handle one) {
    if (known_) op(one);
  });
}

Samples::Kind& Samples::kind(PyTypeObject* type) {
  const auto [at, is_new] = kinds_.try_emplace(type);
  Kind& k = at->second;
  if (!is_new) return k;
  const std::string name = bare_name(type);
  k.is_const = name == "const" || name == "_const_symbolic";
  const Dialect& mil = dialect(DialectId::kMil);
  k.op = mil.find("", k.is_const ? "const" : name, mil.latest_version(""));
  return k;
}

Value* Samples::made_by(PyTypeObject* type) {
  Kind& k = kind(type);
  if (k.op == nullptr) return other_;
  if (k.result != nullptr) return k.result;
  Graph& g = model_.main().graph();
  if (k.is_const) {
    k.result = g.add_constant(Tensor::full(DType::kF32, {}, 0));
  } else {
    // The op's own node, which is in no graph and is not a sample.
    k.result = model_.new_node(*k.op, {}, 1).result();
  }
  return k.result;
}

void Samples::op(nb::handle one) {
  PyTypeObject* type = Py_TYPE(one.ptr());
  Kind& k = kind(type);
  if (k.is_const && k.is_sampled) return;
  if (!k.is_sampled) {
    k.is_sampled = true;
    if (k.op == nullptr) {
      known_ = false;
      return;
    }
    // Only control-flow ops have blocks, so the first op of a type decides.
    k.has_blocks = nb::len(get(one, names().blocks)) > 0;
  }
  meeting_.assign(1, type);
  if (!k.is_const) {
    each_operand(one, [&](PyObject* slot, PyObject* var) {
      const nb::object maker = get(var, names().var_op);
      meeting_.push_back(slot);
      meeting_.push_back(maker.is_none() ? nullptr : Py_TYPE(maker.ptr()));
    });
  }
  if (seen_.try_emplace(meeting_, true).second) {
    std::vector<std::pair<std::string_view, Value*>> given;
    for (size_t i = 1; i < meeting_.size(); i += 2) {
      auto* maker = static_cast<PyTypeObject*>(const_cast<void*>(meeting_[i + 1]));
      given.emplace_back(utf8_of(static_cast<PyObject*>(const_cast<void*>(meeting_[i]))),
                         maker == nullptr ? other_ : made_by(maker));
    }
    std::vector<Value*> operands;
    known_ = place_operands(*k.op, given, operands);
    if (!known_) return;
    model_.main().graph().append(model_.new_node(*k.op, operands, 1));
  }
  if (!k.has_blocks) return;
  for (nb::handle inner : get(one, names().blocks)) block(inner);
}

}  // namespace sardonyx::python
