#include "native/ir/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace sardonyx::python {

std::vector<OpsetImport>& opsets_of(Store& s, Graph& g) {
  if (Function* f = g.function()) return f == &s.model->main() ? s.model->opset_imports : f->opset_imports;
  return s.facts(g).opsets;
}

StorePtr gather(const StorePtr& graph_store, const std::vector<PyNode*>& nodes) {
  // By store, in the order of each store's first node.
  std::vector<std::pair<StorePtr, std::vector<Node*>>> removed;
  for (PyNode* n : nodes) {
    if (n->store == graph_store || !n->store->owned || !graph_store->owned) continue;
    auto at = std::find_if(removed.begin(), removed.end(), [&](const auto& r) { return r.first == n->store; });
    if (at == removed.end()) at = removed.insert(removed.end(), {n->store, {}});
    at->second.push_back(n->ptr);
  }
  for (auto& [from, list] : removed) transfer(from, graph_store, list, {});
  std::vector<StorePtr> stores{graph_store};
  for (PyNode* n : nodes) stores.push_back(n->store);
  return combine(std::move(stores));
}

void link_nodes(PyGraph& graph, const std::vector<PyNode*>& nodes, PyNode* at, bool before) {
  Graph& g = live(graph);
  std::unordered_set<PyNode*> seen;
  for (PyNode* n : nodes) {
    Node& node = live(*n);
    if (node.graph() != nullptr && node.graph() != &g) {
      refuse(fmt::format("{} belongs to another graph, {}", describe(node), describe(*node.graph())),
             {"remove it there first: graph.remove(node)"});
    }
    if (!seen.insert(n).second) refuse(fmt::format("{} is given twice", describe(node)));
    for (Graph* outer = &g; outer != nullptr; outer = outer->enclosing()) {
      if (outer->parent() == &node) refuse(fmt::format("{} cannot be put into a graph nested in itself", describe(node)));
    }
  }
  if (at != nullptr) {
    if (live(*at).graph() != &g) refuse(fmt::format("{} is not in {}", describe(*at->ptr), describe(g)));
    if (seen.contains(at)) refuse(fmt::format("{} cannot be inserted next to itself", describe(*at->ptr)));
  }
  StorePtr s = gather(graph.store, nodes);
  Graph& home = *graph.ptr;
  Node* anchor = at != nullptr ? at->ptr : nullptr;
  for (PyNode* n : nodes) {
    Node& node = *n->ptr;
    if (node.linked()) {
      home.detach(node);
    } else {
      std::optional<int> version;
      if (auto v = s->versions.find(&node); v != s->versions.end()) version = v->second;
      const Op& op = op_for(*s, &home, node.op().domain, node.op().name, version);
      if (&op != &node.op()) node.set_op(op);
    }
    if (anchor == nullptr) {
      home.append(node);
    } else if (before) {
      home.insert_before(*anchor, node);
    } else {
      home.insert_after(*anchor, node);
      anchor = &node;
    }
    settle(*s, node);
  }
}

void check_input(const PyValue& handle) {
  Value& v = live(handle);
  switch (v.kind()) {
    case ValueKind::kPlaceholder: return;
    case ValueKind::kResult:
      refuse(fmt::format("{} is computed by {} and cannot be a graph input", describe(v), describe(*v.def())));
    case ValueKind::kInput:
      refuse(fmt::format("{} is already owned by a different graph: it is an input of {}", describe(v), describe(*v.graph())),
             {"take it out of that graph first, or clone the graph: graph.clone()"});
    case ValueKind::kConstant:
      refuse(fmt::format("{} is already owned by a graph: it is an initializer of {}", describe(v), describe(*v.graph())),
             {"take it out of graph.initializers first, or clone the graph: graph.clone()"});
  }
}

void check_initializer(const PyValue& handle) {
  Value& v = live(handle);
  if (v.kind() == ValueKind::kResult) {
    refuse(fmt::format("{} is computed by {} and cannot be an initializer", describe(v), describe(*v.def())));
  }
  if (v.kind() != ValueKind::kPlaceholder) {
    refuse(fmt::format("{} is already owned by a different graph: it is an input or initializer of {}", describe(v),
                       describe(*v.graph())),
           {"take it out of that graph first, or clone the graph: graph.clone()"});
  }
  if (value_name(v).empty()) refuse("an initializer must have a name", {"set value.name, or pass name= when it is made"});
  if (!handle.store->tensors.contains(&v)) {
    refuse(fmt::format("{} must have its const_value set to be an initializer", describe(v)),
           {"value.const_value = ir.tensor(...)"});
  }
}

void check_output(const PyValue& handle, const Graph* g) {
  Value& v = live(handle);
  if (Graph* other = output_of(v); other != nullptr && other != g) {
    refuse(fmt::format("{} is already owned by a different graph: it is an output of {}", describe(v), describe(*other)),
           {"take it out of that graph's outputs first, or clone the graph: graph.clone()"});
  }
}

namespace {

void take_notes(Port& port, const ValueInfo& info) {
  if (info.notes == nullptr) return;
  port.doc = info.notes->doc;
  port.metadata = info.notes->metadata;
}

}  // namespace

void add_input(const StorePtr& s, Graph& g, PyValue& handle) {
  Value& v = *bring(s, handle);
  std::string name = value_name(v);
  if (name.empty()) name = fresh_value_name(*s, g);
  Value& made = *g.add_input(name, v.type());
  plant(s, v, made);
  made.set_type(g.input_port(made.index()).declared);
  if (auto info = s->loose_info.find(&made); info != s->loose_info.end()) {
    take_notes(g.input_port(made.index()), info->second);
    s->loose_info.erase(info);
  }
  note_name(*s, g, name);
}

void add_initializer(const StorePtr& s, Graph& g, PyValue& handle) {
  Value& v = *bring(s, handle);
  TensorPtr payload = nb::inst_ptr<PyTensor>(s->tensors.at(&v))->tensor;
  if (v.kind() == ValueKind::kInput) {
    g.input_port(v.index()).default_value = std::move(payload);
    return;
  }
  std::string name = value_name(v);
  Value& made = *g.add_constant(std::move(payload), name);
  plant(s, v, made);
  note_name(*s, g, name);
  GraphFacts& facts = s->facts(g);
  if (facts.initializers.size() + 1 == g.constants().size()) facts.initializers[name] = &made;
  if (auto info = s->loose_info.find(&made); info != s->loose_info.end()) {
    g.value_info[&made] = std::move(info->second);
    s->loose_info.erase(info);
  }
}

void add_output(const StorePtr& s, Graph& g, Value& v) {
  std::string name = value_name(v);
  if (output_of(v) == &g) {
    // The value is already a result: this one needs its own name.
    name = fresh_value_name(*s, g, name);
  }
  g.add_output(v, name, v.type());
  Port& port = g.output_port(g.outputs().size() - 1);
  auto take = [&](auto& table) {
    auto info = table.find(&v);
    if (info == table.end()) return;
    take_notes(port, info->second);
    table.erase(info);
  };
  if (v.kind() == ValueKind::kResult) {
    if (v.graph() == &g) take(g.value_info);
    if (v.graph() == nullptr) take(s->loose_info);
  }
}

}  // namespace sardonyx::python
