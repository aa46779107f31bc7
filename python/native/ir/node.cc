// ir.Node
#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>

#include "ir/graph/use_list.h"
#include "native/ir/edit.h"

namespace sardonyx::python {

const Op& op_for(Store& s, const Graph* g, std::string_view domain, std::string_view name, std::optional<int> version) {
  if (domain == "ai.onnx") domain = {};
  if (!version) {
    while (g != nullptr && g->parent() != nullptr && g->parent()->graph() != nullptr) g = g->parent()->graph();
    if (g != nullptr && g->parent() == nullptr) {
      for (const OpsetImport& i : opsets_of(s, const_cast<Graph&>(*g))) {
        if (i.domain == domain || (domain.empty() && i.domain == "ai.onnx")) version = static_cast<int>(i.version);
      }
    }
  }
  if (!version) version = dialect(DialectId::kOnnx).latest_version(domain);
  return s.model->op(domain, name, version);
}

void resolve_ops(Store& s, Graph& g) {
  std::vector<Graph*> stack{&g};
  while (!stack.empty()) {
    Graph& at = *stack.back();
    stack.pop_back();
    for (Node& n : at.nodes()) {
      std::optional<int> version;
      if (auto v = s.versions.find(&n); v != s.versions.end()) version = v->second;
      const Op& op = op_for(s, &at, n.op().domain, n.op().name, version);
      if (&op != &n.op()) n.set_op(op);
      for (const Body& b : n.bodies()) stack.push_back(b.graph);
    }
  }
}

namespace {

std::vector<PyValue*> values_of(nb::handle list, const char* what) {
  std::vector<PyValue*> out;
  for (nb::handle item : list) {
    PyValue* v = nullptr;
    if (!item.is_none() && (!nb::try_cast<PyValue*>(item, v) || v == nullptr)) {
      refuse_type(fmt::format("{} {} is a {}, not an ir.Value or None", what, out.size(),
                              nb::cast<std::string>(item.type().attr("__name__"))));
    }
    out.push_back(v);
  }
  return out;
}

void fill_extra(Model& m, Node& n, std::string_view overload, std::string_view doc, Metadata metadata) {
  if (overload.empty() && doc.empty() && metadata.empty()) return;
  NodeExtra& extra = m.edit_extra(n);
  extra.overload = overload;
  extra.doc = doc;
  extra.metadata = std::move(metadata);
}

void init_node(PyNode* self, std::string_view domain, std::string_view op_type, nb::handle inputs, nb::handle attributes,
               std::string_view overload, std::optional<int64_t> num_outputs, nb::handle outputs, std::optional<int> version,
               PyGraph* graph, std::string_view name, std::string_view doc, nb::handle metadata, Stage* stage) {
  new (self) PyNode;
  if (op_type.empty()) refuse("a node needs an operator name (op_type)");
  std::vector<PyValue*> ins = values_of(inputs, "input");
  std::vector<PyValue*> outs;
  if (!outputs.is_none()) {
    outs = values_of(outputs, "output");
    if (num_outputs && *num_outputs != static_cast<int64_t>(outs.size())) {
      refuse(fmt::format("num_outputs is {}, but outputs has {} values", *num_outputs, outs.size()), {"give one of the two"});
    }
  }
  const int64_t count = outputs.is_none() ? num_outputs.value_or(1) : static_cast<int64_t>(outs.size());
  if (count < 0) refuse(fmt::format("num_outputs is {}: a node cannot have fewer than no outputs", count));
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i] == nullptr) refuse(fmt::format("output {} is None", i), {"make a value for it: ir.Value()"});
    Value& v = live(*outs[i]);
    if (v.kind() == ValueKind::kResult) {
      refuse(fmt::format("{} has a producer already: {}", describe(v), describe(*v.def())),
             {"a value is computed by one node"});
    }
    if (v.kind() != ValueKind::kPlaceholder) {
      refuse(fmt::format("{} is an input or initializer of {} and cannot be computed by a node", describe(v),
                         describe(*v.graph())));
    }
    if (std::find(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(i), outs[i]) !=
        outs.begin() + static_cast<std::ptrdiff_t>(i)) {
      refuse(fmt::format("{} is given twice as an output", describe(v)));
    }
    if (std::find(ins.begin(), ins.end(), outs[i]) != ins.end()) {
      refuse(fmt::format("{} is both an input and an output of the new {} node: that is a cycle", describe(v), op_type));
    }
  }
  std::vector<StorePtr> stores;
  stores.reserve(ins.size() + outs.size() + 2);
  if (stage != nullptr) stores.push_back(stage->store);
  if (graph != nullptr) stores.push_back(graph->store);
  for (PyValue* v : ins) stores.push_back(v ? (live(*v), v->store) : nullptr);
  for (PyValue* v : outs) stores.push_back(v->store);
  for (PyGraph* g : graphs_among(attributes)) stores.push_back((live(*g), g->store));
  StorePtr s = combine(std::move(stores));
  Model& m = *s->model;

  std::vector<Value*> operands;
  operands.reserve(ins.size());
  for (PyValue* v : ins) operands.push_back(v ? bring(s, *v) : nullptr);
  const Op& op = op_for(*s, graph ? graph->ptr : nullptr, domain, op_type, version);
  Node& n = m.new_node(op, operands, static_cast<size_t>(count));
  try {
    set_attributes(s, n, attributes);
  } catch (...) {
    for (size_t i = 0; i < n.num_inputs(); ++i) n.set_input(i, nullptr);
    throw;
  }
  s->loose_nodes.push_back(&n);
  if (version) s->versions[&n] = *version;
  if (!name.empty()) n.set_name(m.name(name));
  fill_extra(m, n, overload, doc, metadata_from_python(metadata));
  for (size_t i = 0; i < outs.size(); ++i) {
    bring(s, *outs[i]);
    const Type* known = n.result(i)->type();
    if (known != nullptr && outs[i]->ptr->type() != nullptr) n.result(i)->set_type(outs[i]->ptr->type());
    plant(s, *outs[i]->ptr, *n.result(i));
  }
  self->bind(s, &n);
  if (graph != nullptr) link_nodes(*graph, {self}, nullptr, false);
}

// Rebuilds the node with other numbers of operands and results. The handle follows to the new native node.
Node& rebuild(const StorePtr& s, Node& old, const std::vector<Value*>& operands, size_t results) {
  Model& m = *s->model;
  Node& n = m.new_node(old.op(), operands, results, &old.attrs());
  n.set_name(old.name());
  n.set_provenance(old.provenance());
  std::vector<std::pair<std::string, Graph*>> bodies;
  for (const Body& b : old.bodies()) bodies.emplace_back(b.name.view(), b.graph);
  while (!old.bodies().empty()) old.remove_body(old.bodies().size() - 1);
  if (old.extra() != nullptr) m.edit_extra(n) = *old.extra();
  for (auto& [name, g] : bodies) n.add_body(name, *g);
  Graph* g = old.graph();
  Graph& home = g != nullptr ? *g : m.new_graph();
  if (g == nullptr) home.append(old);
  home.insert_before(old, n);
  for (size_t i = 0; i < old.num_results(); ++i) {
    Value& from = *old.result(i);
    if (i >= results) break;
    Value& to = *n.result(i);
    to.set_name(from.name());
    to.set_type(from.type());
    if (auto info = home.value_info.find(&from); info != home.value_info.end()) home.value_info[&to] = std::move(info->second);
    UseList::move_all(from, to);
    auto follow_key = [&](auto& table) {
      auto at = table.find(&from);
      if (at == table.end()) return;
      auto entry = std::move(at->second);
      table.erase(at);
      table[&to] = std::move(entry);
    };
    follow_key(s->meta);
    follow_key(s->loose_info);
    follow_key(s->tensors);
    if (auto h = s->handles.find(&from); h != s->handles.end()) static_cast<Handle<Value>*>(h->second)->bind(s, &to);
  }
  home.erase(old);
  if (g == nullptr) {
    home.detach(n);
    s->loose_nodes.push_back(&n);
  } else {
    settle(*s, n);
  }
  if (auto v = s->versions.find(&old); v != s->versions.end()) {
    int version = v->second;
    s->versions.erase(v);
    s->versions[&n] = version;
  }
  if (auto meta = s->meta.find(&old); meta != s->meta.end()) {
    nb::object kept = meta->second;
    s->meta.erase(meta);
    s->meta[&n] = kept;
  }
  if (auto h = s->handles.find(&old); h != s->handles.end()) static_cast<Handle<Node>*>(h->second)->bind(s, &n);
  return n;
}

void replace_input(PyNode& self, int64_t index, PyValue* value) {
  Node& n = live(self);
  if (index < 0 || index >= static_cast<int64_t>(n.num_inputs())) {
    refuse(fmt::format("input {} is out of range: {} has {} inputs", index, describe(n), n.num_inputs()),
           {"node.resize_inputs(n) changes their number"});
  }
  if (value == nullptr) {
    n.set_input(static_cast<size_t>(index), nullptr);
    n.set_unchecked(true);
    return;
  }
  Value& v = live(*value);
  if (v.def() == &n) refuse(fmt::format("{} would read its own result: that is a cycle", describe(n)));
  if (self.store->owned && value->store->owned && self.store != value->store && !n.linked()) {
    n.set_input(static_cast<size_t>(index), nullptr);
    transfer(self.store, value->store, {&n}, {});
  }
  StorePtr s = combine({self.store, value->store});
  Value* to = bring(s, *value);
  Node& at = *self.ptr;
  at.set_input(static_cast<size_t>(index), to);
  at.set_unchecked(true);
}

void resize_inputs(PyNode& self, int64_t size) {
  Node& n = live(self);
  if (size < 0) refuse(fmt::format("{} cannot have {} inputs", describe(n), size));
  if (size == static_cast<int64_t>(n.num_inputs())) return;
  std::vector<Value*> operands(static_cast<size_t>(size), nullptr);
  for (size_t i = 0; i < std::min(operands.size(), n.num_inputs()); ++i) operands[i] = n.input(i);
  Node& made = rebuild(self.store, n, operands, n.num_results());
  made.set_unchecked(true);
}

void resize_outputs(PyNode& self, int64_t size) {
  Node& n = live(self);
  if (size < 0) refuse(fmt::format("{} cannot have {} outputs", describe(n), size));
  if (size == static_cast<int64_t>(n.num_results())) return;
  for (size_t i = static_cast<size_t>(size); i < n.num_results(); ++i) {
    if (n.result(i)->has_uses())
      refuse(fmt::format("output {} of {} is still read", i, describe(n)), {"replace its uses first"});
  }
  std::vector<Value*> operands;
  for (const Use& u : n.operands()) operands.push_back(u.value);
  Node& made = rebuild(self.store, n, operands, static_cast<size_t>(size));
  made.set_unchecked(true);
}

void set_operator(PyNode& self, std::string_view domain, std::string_view name) {
  Node& n = live(self);
  if (name.empty()) refuse("a node needs an operator name (op_type)");
  std::optional<int> version;
  if (auto v = self.store->versions.find(&n); v != self.store->versions.end()) version = v->second;
  n.set_op(op_for(*self.store, n.graph(), domain, name, version));
}

void set_attrs(PyNode& self, nb::handle items) {
  Node& n = live(self);
  std::vector<StorePtr> stores{self.store};
  for (PyGraph* g : graphs_among(items)) stores.push_back((live(*g), g->store));
  (void)n;
  StorePtr s = combine(std::move(stores));
  set_attributes(s, *self.ptr, items);
}

std::string text_of_extra(Node& n, std::string NodeExtra::* field) { return n.extra() ? n.extra()->*field : std::string(); }

}  // namespace

void bind_ir_node(nb::module_& m) {
  nb::class_<Stage>(m, "Stage", "Keeps what a tape records in one model.").def("__init__", [](Stage* self) {
    new (self) Stage{Store::make()};
  });
  nb::class_<PyNode>(m, "NodeBase", nb::is_weak_referenceable())
      .def("__init__", &init_node, nb::arg("domain"), nb::arg("op_type"), nb::arg("inputs"), nb::arg("attributes"),
           nb::arg("overload"), nb::arg("num_outputs").none(), nb::arg("outputs").none(), nb::arg("version").none(),
           nb::arg("graph").none(), nb::arg("name"), nb::arg("doc"), nb::arg("metadata"), nb::arg("stage").none())
      .def_prop_ro("_name", [](PyNode& self) { return std::string(live(self).name().view()); })
      .def("_set_name",
           [](PyNode& self, std::string_view name) {
             live(self).set_name(self.store->model->name(name));
             if (Graph* g = self.ptr->graph()) self.store->facts(*g).node_names.emplace(name);
           })
      .def_prop_ro("_op_type", [](PyNode& self) { return std::string(live(self).op().name); })
      .def_prop_ro("_domain", [](PyNode& self) { return std::string(live(self).op().domain); })
      .def("_set_operator", &set_operator)
      .def_prop_ro("_version",
                   [](PyNode& self) -> std::optional<int> {
                     auto v = self.store->versions.find(&live(self));
                     return v != self.store->versions.end() ? std::optional<int>(v->second) : std::nullopt;
                   })
      .def(
          "_set_version",
          [](PyNode& self, std::optional<int> version) {
            Node& n = live(self);
            self.store->versions.erase(&n);
            if (version) self.store->versions[&n] = *version;
            n.set_op(op_for(*self.store, n.graph(), n.op().domain, n.op().name, version));
          },
          nb::arg("version").none())
      .def_prop_ro("_since_version", [](PyNode& self) { return live(self).op().since_version; })
      .def_prop_ro("_overload", [](PyNode& self) { return text_of_extra(live(self), &NodeExtra::overload); })
      .def("_set_overload", [](PyNode& self, std::string_view t) { self.store->model->edit_extra(live(self)).overload = t; })
      .def("_doc", [](PyNode& self) { return str_or_none(text_of_extra(live(self), &NodeExtra::doc)); })
      .def("_set_doc", [](PyNode& self, std::string_view t) { self.store->model->edit_extra(live(self)).doc = t; })
      .def("_metadata",
           [](PyNode& self) { return live(self).extra() ? metadata_to_python(self.ptr->extra()->metadata) : nb::list(); })
      .def("_set_metadata",
           [](PyNode& self, nb::handle pairs) {
             self.store->model->edit_extra(live(self)).metadata = metadata_from_python(pairs);
           })
      .def_prop_ro(
          "meta",
          [](PyNode& self) {
            nb::object& meta = self.store->meta[&live(self)];
            if (!meta.is_valid()) meta = nb::dict();
            return meta;
          },
          "A dict of anything, kept as long as the model and never written.")
      .def_prop_ro(
          "inputs",
          [](PyNode& self) {
            nb::list out;
            for (const Use& u : live(self).operands()) out.append(wrap(self.store, u.value));
            return nb::tuple(out);
          },
          "What the node reads, None where an optional input is absent. See replace_input_with.")
      .def_prop_ro(
          "outputs",
          [](PyNode& self) {
            nb::list out;
            for (Value& v : live(self).results()) out.append(wrap(self.store, &v));
            return nb::tuple(out);
          },
          "What the node computes.")
      .def("_attributes", [](PyNode& self) { return attributes_to_python(self.store, live(self)); })
      .def("_set_attributes", &set_attrs)
      .def_prop_ro(
          "graph", [](PyNode& self) { return wrap(self.store, live(self).graph()); }, "The graph that has this node, or None.")
      .def_prop_ro("_unchecked", [](PyNode& self) { return live(self).unchecked(); })
      .def("replace_input_with", &replace_input, nb::arg("index"), nb::arg("value").none(),
           "Read `value` (or nothing) at input `index`.")
      .def("resize_inputs", &resize_inputs, nb::arg("new_size"), "Change the number of inputs; new ones are None.")
      .def("resize_outputs", &resize_outputs, nb::arg("new_size"),
           "Change the number of outputs; those that go must not be read.");
}

}  // namespace sardonyx::python
