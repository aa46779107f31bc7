// ir.Graph
#include <fmt/format.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>

#include "native/ir/edit.h"

namespace sardonyx::python {

namespace {

template <class H>
std::vector<H*> handles_of(nb::handle list, const char* what, const char* type) {
  std::vector<H*> out;
  for (nb::handle item : list) {
    H* h = nullptr;
    if (item.is_none() || !nb::try_cast<H*>(item, h) || h == nullptr) {
      refuse_type(
          fmt::format("{} {} is a {}, not an {}", what, out.size(), nb::cast<std::string>(item.type().attr("__name__")), type));
    }
    out.push_back(h);
  }
  return out;
}

template <class H>
void check_distinct(const std::vector<H*>& list, const char* what) {
  std::unordered_set<H*> seen;
  for (H* h : list) {
    if (!seen.insert(h).second) refuse(fmt::format("{} is given twice as {}", describe(live(*h)), what));
  }
}

std::vector<OpsetImport> opsets_from_python(nb::handle pairs) {
  std::vector<OpsetImport> out;
  for (nb::handle item : pairs) {
    nb::tuple pair = nb::borrow<nb::tuple>(item);
    out.push_back({nb::cast<std::string>(pair[0]), nb::cast<int64_t>(pair[1])});
  }
  return out;
}

void init_graph(PyGraph* self, nb::handle inputs, nb::handle outputs, nb::handle nodes, nb::handle initializers,
                std::string_view doc, nb::handle opsets, std::string_view name, nb::handle metadata) {
  new (self) PyGraph;
  auto ins = handles_of<PyValue>(inputs, "input", "ir.Value");
  auto outs = handles_of<PyValue>(outputs, "output", "ir.Value");
  auto list = handles_of<PyNode>(nodes, "node", "ir.Node");
  auto consts = handles_of<PyValue>(initializers, "initializer", "ir.Value");
  std::vector<OpsetImport> imports = opsets_from_python(opsets);
  Metadata props = metadata_from_python(metadata);
  // Check everything that can be wrong before taking anything.
  check_distinct(ins, "an input");
  check_distinct(list, "a node");
  std::erase_if(consts, [seen = std::unordered_set<PyValue*>()](PyValue* v) mutable { return !seen.insert(v).second; });
  for (PyValue* v : ins) check_input(*v);
  std::unordered_map<std::string, PyValue*> by_name;
  for (PyValue* v : consts) {
    check_initializer(*v);
    if (!by_name.emplace(value_name(*v->ptr), v).second) {
      refuse(fmt::format("two different initializers have the name '{}'", value_name(*v->ptr)),
             {"initializers need names of their own"});
    }
  }
  for (PyNode* n : list) {
    if (Graph* other = live(*n).graph()) {
      refuse(fmt::format("{} belongs to another graph, {}", describe(*n->ptr), describe(*other)),
             {"remove it there first: graph.remove(node)"});
    }
  }
  for (PyValue* v : outs) check_output(*v, nullptr);

  std::vector<StorePtr> stores;
  stores.reserve(ins.size() + outs.size() + consts.size() + list.size());
  for (PyValue* v : ins) stores.push_back(v->store);
  for (PyValue* v : outs) stores.push_back(v->store);
  for (PyValue* v : consts) stores.push_back(v->store);
  for (PyNode* n : list) stores.push_back(n->store);
  StorePtr s = combine(std::move(stores));
  Graph& g = s->model->new_graph(name);
  s->roots.push_back(&g);
  self->bind(s, &g);
  g.doc = doc;
  g.metadata = std::move(props);
  s->facts(g).opsets = std::move(imports);
  for (PyValue* v : ins) add_input(s, g, *v);
  for (PyValue* v : consts) {
    bring(s, *v);
    add_initializer(s, g, *v);
  }
  link_nodes(*self, list, nullptr, false);
  for (PyValue* v : outs) add_output(s, g, *bring(s, *v));
}

void set_inputs(PyGraph& self, nb::handle values) {
  Graph& g = live(self);
  auto list = handles_of<PyValue>(values, "input", "ir.Value");
  check_distinct(list, "an input");
  size_t same = 0;
  while (same < list.size() && same < g.inputs().size() && list[same]->ptr == g.input(same) && list[same]->store == self.store)
    ++same;
  for (PyValue* v : list) {
    if (live(*v).kind() == ValueKind::kInput && v->ptr->graph() == &g) continue;
    check_input(*v);
  }
  std::vector<StorePtr> stores{self.store};
  for (PyValue* v : list) stores.push_back(v->store);
  StorePtr s = combine(std::move(stores));
  Graph& at = *self.ptr;
  if (same < at.inputs().size()) {
    same = 0;
    std::unordered_map<const Value*, TensorPtr> defaults;
    for (const Port& p : at.inputs()) {
      TensorPtr payload = p.default_value;
      Value& v = uproot(s, *p.value);
      if (payload != nullptr) defaults[&v] = std::move(payload);
    }
    while (!at.inputs().empty()) at.remove_input(at.inputs().size() - 1);
    for (PyValue* v : list) {
      TensorPtr payload;
      if (auto d = defaults.find(v->ptr); d != defaults.end()) payload = d->second;
      add_input(s, at, *v);
      at.input_port(at.inputs().size() - 1).default_value = std::move(payload);
    }
    return;
  }
  for (; same < list.size(); ++same) add_input(s, at, *list[same]);
}

void set_outputs(PyGraph& self, nb::handle values) {
  Graph& g = live(self);
  auto list = handles_of<PyValue>(values, "output", "ir.Value");
  for (PyValue* v : list) check_output(*v, &g);
  std::vector<StorePtr> stores{self.store};
  for (PyValue* v : list) stores.push_back(v->store);
  StorePtr s = combine(std::move(stores));
  for (PyValue* v : list) bring(s, *v);
  Graph& at = *self.ptr;
  size_t same = 0;
  while (same < list.size() && same < at.outputs().size() && list[same]->ptr == at.output(same)) ++same;
  if (same < at.outputs().size()) {
    // Removed outputs keep their doc strings and metadata as values; kept outputs keep their names.
    std::unordered_map<Value*, std::vector<Port>> old;
    for (size_t i = 0; i < at.outputs().size(); ++i) {
      Port& p = at.output_port(i);
      Value& v = *p.use->value;
      if (v.kind() == ValueKind::kResult && value_name(v) == p.name.view()) v.set_name(p.name);
      old[&v].push_back(std::move(p));
    }
    at.clear_outputs();
    same = 0;
    for (auto& [v, ports] : old) {
      const bool stays = std::any_of(list.begin(), list.end(), [v = v](PyValue* h) { return h->ptr == v; });
      if (stays || v->kind() != ValueKind::kResult || v->graph() != &at) continue;
      ValueInfo& info = at.value_info[v];
      info.declared = v->type();
      info.notes = std::make_shared<const Notes>(Notes{ports.front().doc, ports.front().metadata});
    }
    for (PyValue* v : list) {
      auto known = old.find(v->ptr);
      if (known == old.end() || known->second.empty()) {
        add_output(s, at, *v->ptr);
        continue;
      }
      Port port = std::move(known->second.front());
      known->second.erase(known->second.begin());
      at.add_output(*v->ptr, port.name.view(), port.declared);
      Port& made = at.output_port(at.outputs().size() - 1);
      made.doc = std::move(port.doc);
      made.metadata = std::move(port.metadata);
    }
    return;
  }
  for (; same < list.size(); ++same) add_output(s, at, *list[same]->ptr);
}

void take_initializer(PyGraph& self, PyValue& value) {
  Graph& g = live(self);
  Value& v = live(value);
  if (initializer_of(v) == nullptr || v.graph() != &g)
    refuse(fmt::format("{} is not an initializer of {}", describe(v), describe(g)));
  if (v.kind() == ValueKind::kInput) {  // stays an input, without a default
    Port& port = g.input_port(v.index());
    if (!self.store->tensors.contains(&v)) self.store->tensors[&v] = wrap_tensor(port.default_value, value_name(v));
    port.default_value = nullptr;
    return;
  }
  self.store->facts(g).initializers.erase(std::string(v.name().view()));
  if (!self.store->tensors.contains(&v)) {
    self.store->tensors[&v] = wrap_tensor(v.constant(), std::string(v.name().view()));
  }
  uproot(self.store, v);
  g.erase_constant(v);
}

void put_initializer(PyGraph& self, PyValue& value) {
  Graph& g = live(self);
  Value& v = live(value);
  if (initializer_of(v) != nullptr && v.graph() == &g) return;
  if (v.kind() != ValueKind::kInput || v.graph() != &g) check_initializer(value);
  if (!value.store->tensors.contains(&v)) {
    refuse(fmt::format("{} must have its const_value set to be an initializer", describe(v)),
           {"value.const_value = ir.tensor(...)"});
  }
  Value* old = find_initializer(*self.store, g, value_name(v));
  StorePtr s = combine({self.store, value.store});
  if (old != nullptr) {
    nb::object handle = wrap(s, find_initializer(*s, *self.ptr, value_name(*value.ptr)));
    take_initializer(self, *nb::inst_ptr<PyValue>(handle));
  }
  add_initializer(s, *self.ptr, value);
}

void remove_nodes(PyGraph& self, nb::handle nodes, bool safe) {
  Graph& g = live(self);
  auto list = handles_of<PyNode>(nodes, "node", "ir.Node");
  std::unordered_set<Node*> going;
  for (PyNode* n : list) {
    Node& node = live(*n);
    if (node.graph() != &g) refuse(fmt::format("{} does not belong to {}", describe(node), describe(g)));
    going.insert(&node);
  }
  if (safe) {
    for (PyNode* n : list) {
      for (Value& v : n->ptr->results()) {
        for (Use& u : v.uses()) {
          if (u.owner->is_boundary()) {
            refuse(fmt::format("{} cannot be removed: its {} is an output of {}", describe(*n->ptr), describe(v),
                               describe(*u.owner->graph())),
                   {"replace the output first"});
          }
          if (!going.contains(u.owner)) {
            refuse(fmt::format("{} cannot be removed: its {} is still read by {}", describe(*n->ptr), describe(v),
                               describe(*u.owner)),
                   {"replace its uses first: value.replace_all_uses_with(...)"});
          }
        }
      }
    }
  }
  for (PyNode* n : list) {
    if (!n->ptr->linked()) continue;  // given twice
    if (safe) {
      for (size_t i = 0; i < n->ptr->num_inputs(); ++i) n->ptr->set_input(i, nullptr);
    }
    unlink(*self.store, *n->ptr);
  }
}

nb::object node_at(PyGraph& self, int64_t index) {
  Graph& g = live(self);
  const auto count = static_cast<int64_t>(g.num_nodes());
  if (index < -count || index >= count)
    throw nb::index_error(fmt::format("node {} is out of range: the graph has {} nodes", index, count).c_str());
  if (index < 0) index += count;
  Node* n;
  if (index < count / 2) {
    for (n = g.first(); index > 0; --index) n = n->next();
  } else {
    for (n = g.last(); index < count - 1; ++index) n = n->prev();
  }
  return wrap(self.store, n);
}

// Walks a graph that may change meanwhile. Visits nodes inserted after the current one, even when the current
// one was removed.
class NodeWalk {
 public:
  NodeWalk(nb::object graph, bool backwards) : graph_(std::move(graph)), backwards_(backwards), upcoming_(nullptr) {
    PyGraph& g = handle();
    upcoming_ = backwards_ ? g.ptr->last() : g.ptr->first();
  }
  nb::object next() {
    PyGraph& g = handle();
    Node* n = upcoming_;
    if (current_ != nullptr && current_->alive() && current_->linked() && current_->graph() == g.ptr) n = step(*current_);
    while (n != nullptr && !(n->alive() && n->linked() && n->graph() == g.ptr)) n = n->alive() ? nullptr : step(*n);
    if (n == nullptr) {
      current_ = upcoming_ = nullptr;
      throw nb::stop_iteration();
    }
    current_ = n;
    upcoming_ = step(*n);
    return wrap(g.store, n);
  }

 private:
  PyGraph& handle() { return *nb::inst_ptr<PyGraph>(graph_); }
  Node* step(Node& n) const { return backwards_ ? n.prev() : n.next(); }
  nb::object graph_;  // keeps the store alive
  bool backwards_;
  Node* current_ = nullptr;
  Node* upcoming_;
};

void sort_graph(PyGraph& self) {
  std::vector<Graph*> stack{&live(self)};
  while (!stack.empty()) {
    Graph& g = *stack.back();
    stack.pop_back();
    g.sort();
    for (Node& n : g.nodes()) {
      for (const Body& b : n.bodies()) stack.push_back(b.graph);
    }
  }
}

// Names of values that g or the graphs inside it capture from outside.
std::vector<std::string> captures(Graph& g) {
  std::unordered_set<const Value*> defined;
  std::vector<Value*> read;
  std::vector<Graph*> stack{&g};
  while (!stack.empty()) {
    Graph& at = *stack.back();
    stack.pop_back();
    for (const Port& p : at.inputs()) defined.insert(p.value);
    for (Value* c : at.constants()) defined.insert(c);
    for (Node& n : at.nodes()) {
      for (const Value& v : n.results()) defined.insert(&v);
      for (const Use& u : n.operands()) {
        if (u.value != nullptr) read.push_back(u.value);
      }
      for (const Body& b : n.bodies()) stack.push_back(b.graph);
    }
    for (const Port& p : at.outputs()) read.push_back(p.use->value);
  }
  std::vector<std::string> names;
  for (Value* v : read) {
    if (defined.contains(v)) continue;
    std::string name = describe(*v);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

void copy_notes(Store& from, Store& to, Graph& a, Graph& b) {
  std::vector<std::pair<Graph*, Graph*>> stack{{&a, &b}};
  while (!stack.empty()) {
    auto [x, y] = stack.back();
    stack.pop_back();
    Node* other = y->first();
    for (Node& n : x->nodes()) {
      if (auto v = from.versions.find(&n); v != from.versions.end()) {
        int version = v->second;
        to.versions[other] = version;
      }
      for (size_t i = 0; i < n.num_results(); ++i) {
        if (from.auto_named.contains(n.result(i))) to.auto_named[other->result(i)] = true;
      }
      for (size_t i = 0; i < n.bodies().size(); ++i) stack.emplace_back(n.bodies()[i].graph, other->bodies()[i].graph);
      other = other->next();
    }
  }
}

nb::object clone(PyGraph& self, bool allow_outer) {
  Graph& g = live(self);
  std::vector<std::string> outer = captures(g);
  if (!outer.empty() && !allow_outer) {
    refuse(fmt::format("{} reads values of an outer graph: {}", describe(g), fmt::join(outer, ", ")),
           {"pass allow_outer_scope_values=True to share them with the copy"});
  }
  StorePtr s = outer.empty() ? Store::make() : self.store;
  Graph& made = copy_graph(g, s);
  std::vector<OpsetImport> opsets = opsets_of(*self.store, g);
  s->facts(made).opsets = std::move(opsets);
  copy_notes(*self.store, *s, g, made);
  return wrap(s, &made);
}

nb::list subgraphs_of(PyGraph& self) {
  nb::list out;
  for (Node& n : live(self).nodes()) {
    for (const Body& b : n.bodies()) out.append(wrap(self.store, b.graph));
  }
  return out;
}

}  // namespace

void bind_ir_graph(nb::module_& m) {
  nb::class_<NodeWalk>(m, "NodeWalk").def("__iter__", [](nb::handle self) { return self; }).def("__next__", &NodeWalk::next);
  nb::class_<PyGraph>(m, "GraphBase", nb::is_weak_referenceable())
      .def("__init__", &init_graph)
      .def_prop_ro("_name", [](PyGraph& self) { return std::string(live(self).name().view()); })
      .def("_set_name", [](PyGraph& self, std::string_view name) { live(self).set_name(self.store->model->name(name)); })
      .def("_doc", [](PyGraph& self) { return str_or_none(live(self).doc); })
      .def("_set_doc", [](PyGraph& self, std::string_view doc) { live(self).doc = doc; })
      .def("_metadata", [](PyGraph& self) { return metadata_to_python(live(self).metadata); })
      .def("_set_metadata", [](PyGraph& self, nb::handle pairs) { live(self).metadata = metadata_from_python(pairs); })
      .def("_opsets",
           [](PyGraph& self) {
             nb::list out;
             for (const OpsetImport& i : opsets_of(*self.store, live(self))) out.append(nb::make_tuple(i.domain, i.version));
             return out;
           })
      .def("_set_opsets",
           [](PyGraph& self, nb::handle pairs) {
             opsets_of(*self.store, live(self)) = opsets_from_python(pairs);
             resolve_ops(*self.store, *self.ptr);
           })
      .def_prop_ro(
          "meta",
          [](PyGraph& self) {
            nb::object& meta = self.store->meta[&live(self)];
            if (!meta.is_valid()) meta = nb::dict();
            return meta;
          },
          "A dict of anything, kept as long as the model and never written.")
      .def("_inputs",
           [](PyGraph& self) {
             nb::list out;
             for (const Port& p : live(self).inputs()) out.append(wrap(self.store, p.value));
             return out;
           })
      .def("_set_inputs", &set_inputs)
      .def("_outputs",
           [](PyGraph& self) {
             nb::list out;
             for (const Port& p : live(self).outputs()) out.append(wrap(self.store, p.use->value));
             return out;
           })
      .def("_set_outputs", &set_outputs)
      .def("_initializers",
           [](PyGraph& self) {
             nb::list out;
             for (Value* v : live(self).constants()) out.append(wrap(self.store, v));
             for (const Port& p : self.ptr->inputs()) {
               if (p.default_value != nullptr) out.append(wrap(self.store, p.value));
             }
             return out;
           })
      .def("_initializer",
           [](PyGraph& self, std::string_view name) {
             return wrap(self.store, find_initializer(*self.store, live(self), name));
           })
      .def_prop_ro("_num_initializers",
                   [](PyGraph& self) {
                     Graph& g = live(self);
                     auto with_default = [](const Port& p) { return p.default_value != nullptr; };
                     return g.constants().size() +
                            static_cast<size_t>(std::count_if(g.inputs().begin(), g.inputs().end(), with_default));
                   })
      .def("_put_initializer", &put_initializer)
      .def("_take_initializer", &take_initializer)
      .def(
          "_link",
          [](PyGraph& self, nb::handle nodes, PyNode* at, bool before) {
            link_nodes(self, handles_of<PyNode>(nodes, "node", "ir.Node"), at, before);
          },
          nb::arg("nodes"), nb::arg("at").none(), nb::arg("before"))
      .def("_remove", &remove_nodes)
      .def("_node_at", &node_at)
      .def(
          "num_nodes", [](PyGraph& self) { return live(self).num_nodes(); },
          "The number of nodes, those of nested graphs not counted.")
      .def("__len__", [](PyGraph& self) { return live(self).num_nodes(); })
      .def("__bool__", [](PyGraph& self) { return live(self).num_nodes() != 0; })
      .def(
          "__iter__", [](nb::handle self) { return new NodeWalk(nb::borrow(self), false); }, nb::rv_policy::take_ownership)
      .def(
          "__reversed__", [](nb::handle self) { return new NodeWalk(nb::borrow(self), true); }, nb::rv_policy::take_ownership)
      .def("sort", &sort_graph,
           "Put the nodes of this graph and of all nested ones into topological order, changing as little as possible.")
      .def("_clone", &clone)
      .def("_subgraphs", &subgraphs_of)
      .def("_captures", [](PyGraph& self) { return captures(live(self)); })
      .def_prop_ro("_parent_node", [](PyGraph& self) { return wrap(self.store, live(self).parent()); });
}

}  // namespace sardonyx::python
