// ir.Value
#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>

#include "native/ir/store.h"

namespace sardonyx::python {

namespace {

nb::list uses_of(PyValue& self) {
  std::vector<Use*> uses;
  for (Use& u : live(self).uses()) {
    if (!u.owner->is_boundary()) uses.push_back(&u);
  }
  nb::list out;
  // The list starts with the newest user; Python callers expect the oldest first.
  for (auto at = uses.rbegin(); at != uses.rend(); ++at) {
    out.append(nb::make_tuple(wrap(self.store, (*at)->owner), (*at)->owner->operand_index(**at)));
  }
  return out;
}

nb::object const_value(PyValue& self) {
  Value& v = live(self);
  auto known = self.store->tensors.find(&v);
  const TensorPtr& payload = v.kind() == ValueKind::kInput ? initializer_of(v) : v.constant();
  if (payload == nullptr) return known != self.store->tensors.end() ? known->second : nb::none();
  if (known != self.store->tensors.end() && nb::inst_ptr<PyTensor>(known->second)->tensor == payload) return known->second;
  std::string name = value_name(v);
  nb::object made = wrap_tensor(payload, name.empty() ? std::nullopt : std::optional<std::string>(name));
  self.store->tensors[&v] = made;
  return made;
}

void set_const_value(PyValue& self, nb::object tensor) {
  Value& v = live(self);
  if (tensor.is_none()) {
    if (initializer_of(v) != nullptr) {
      refuse(fmt::format("initializer '{}' needs a const_value", value_name(v)), {"take it out of graph.initializers first"});
    }
    self.store->tensors.erase(&v);
    return;
  }
  const TensorPtr& payload = nb::cast<PyTensor&>(tensor).tensor;
  if (v.kind() == ValueKind::kConstant) v.graph()->set_constant(v, payload);
  if (v.kind() == ValueKind::kInput && initializer_of(v) != nullptr) v.graph()->input_port(v.index()).default_value = payload;
  self.store->tensors[&v] = std::move(tensor);
}

void replace_all_uses(PyValue& self, PyValue& other, bool outputs_too) {
  Value& from = live(self);
  live(other);
  Graph* g = output_of(from);
  if (g != nullptr && !outputs_too) {
    refuse(fmt::format("{} is an output of {}", describe(from), describe(*g)),
           {"pass replace_graph_outputs=True, or replace the output first: graph.outputs[i] = ..."});
  }
  if (&from == other.ptr) return;
  StorePtr s = combine({self.store, other.store});
  Value* old = bring(s, self);
  Value* made = bring(s, other);
  std::vector<Use*> returned, read;
  for (Use& u : old->uses()) (u.owner->is_boundary() ? returned : read).push_back(&u);
  // The output takes the name of the replacement, which is now the returned value.
  for (Use* u : returned) {
    Graph& at = *u->owner->graph();
    for (size_t i = 0; i < at.outputs().size(); ++i) {
      if (at.outputs()[i].use != u) continue;
      std::string name = value_name(*made);
      at.set_output(i, *made);
      at.output_port(i).name = s->model->name(name);
      if (made->type() != nullptr) at.output_port(i).declared = made->type();
      break;
    }
  }
  for (auto at = read.rbegin(); at != read.rend(); ++at) (*at)->owner->set_input((*at)->owner->operand_index(**at), made);
}

}  // namespace

void bind_ir_value(nb::module_& m) {
  nb::class_<PyValue>(m, "ValueBase", nb::is_weak_referenceable())
      .def("__init__",
           [](PyValue* self, std::string_view name) {
             new (self) PyValue;
             StorePtr s = lobby();
             Value& v = s->model->new_placeholder(name);
             s->placeholders.push_back(&v);
             self->bind(s, &v);
           })
      .def_prop_ro("_name", [](PyValue& self) { return value_name(live(self)); })
      .def("_set_name",
           [](PyValue& self, std::string_view name, bool absent) {
             rename(*self.store, live(self), name);
             self.store->absent.erase(self.ptr);
             if (absent) self.store->absent[self.ptr] = true;
           })
      .def_prop_ro("_absent",
                   [](PyValue& self) {
                     Value& v = live(self);
                     if (!value_name(v).empty()) return false;
                     return self.store->absent.contains(&v) || (v.def() != nullptr && v.def()->linked() && !v.has_uses());
                   })
      .def("_type", [](PyValue& self) { return type_to_python(live(self).type()); })
      .def("_dims", [](PyValue& self) { return dims_to_python(self.store->model->dims(), live(self).type()); })
      .def(
          "_set_type",
          [](PyValue& self, nb::handle type, nb::handle dims) {
            declare(live(self), type_from_python(self.store->model->types(), type, dims));
          },
          nb::arg("type").none(), nb::arg("dims").none())
      .def("_doc", [](PyValue& self) { return str_or_none(notes_of(*self.store, live(self)).doc); })
      .def("_set_doc",
           [](PyValue& self, std::string_view doc) {
             Notes notes = notes_of(*self.store, live(self));
             notes.doc = doc;
             set_notes(*self.store, *self.ptr, std::move(notes));
           })
      .def("_metadata", [](PyValue& self) { return metadata_to_python(notes_of(*self.store, live(self)).metadata); })
      .def("_set_metadata",
           [](PyValue& self, nb::handle pairs) {
             Notes notes = notes_of(*self.store, live(self));
             notes.metadata = metadata_from_python(pairs);
             set_notes(*self.store, *self.ptr, std::move(notes));
           })
      .def("_const_value", &const_value)
      .def("_set_const_value", &set_const_value, nb::arg("tensor").none())
      .def_prop_ro(
          "meta",
          [](PyValue& self) {
            nb::object& meta = self.store->meta[&live(self)];
            if (!meta.is_valid()) meta = nb::dict();
            return meta;
          },
          "A dict of anything, kept as long as the model and never written.")
      .def(
          "producer", [](PyValue& self) { return wrap(self.store, live(self).def()); },
          "The node that computes this value; None for inputs, initializers and values without a producer yet.")
      .def(
          "index",
          [](PyValue& self) -> nb::object {
            Value& v = live(self);
            return v.def() != nullptr ? nb::object(nb::int_(static_cast<int64_t>(v.index()))) : nb::none();
          },
          "Which result of its producer this is, or None.")
      .def("_uses", &uses_of)
      .def_prop_ro(
          "graph",
          [](PyValue& self) {
            Value& v = live(self);
            Graph* g = v.graph();
            return wrap(self.store, g != nullptr ? g : output_of(v));
          },
          "The graph that defines this value, or None.")
      .def("is_graph_input", [](PyValue& self) { return live(self).kind() == ValueKind::kInput; })
      .def("is_graph_output", [](PyValue& self) { return output_of(live(self)) != nullptr; })
      .def("is_initializer", [](PyValue& self) { return initializer_of(live(self)) != nullptr; })
      .def("replace_all_uses_with", &replace_all_uses, nb::arg("replacement"), nb::arg("replace_graph_outputs") = false,
           "Make all readers of this value read `replacement`. A graph output is replaced only when asked for.");
}

}  // namespace sardonyx::python
