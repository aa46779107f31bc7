#include "convert/guards/outside_names.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/onnx/fields_onnx.h"
#include "ir/graph/file_record.h"

namespace sardonyx {
namespace {

using namespace onnx_file;
using wire::kBytes;
using wire::Reader;

std::vector<Graph*> all_graphs(Model& m) {
  std::vector<Graph*> all;
  for (const auto& f : m.functions()) {
    size_t next = all.size();
    all.push_back(&f->graph());
    for (; next < all.size(); ++next) {
      for (Node& n : all[next]->nodes()) {
        for (const Body& b : n.bodies()) all.push_back(b.graph);
      }
    }
  }
  return all;
}

// Names of tensors that a TrainingInfoProto may use: keys of its bindings, operands of its nodes, strings in
// their attributes (Gradient).
void collect(std::string_view training_info, std::set<std::string, std::less<>>& names) {
  enum Kind { kTraining, kGraph, kNode, kAttribute, kBinding };
  std::vector<std::pair<Kind, std::string_view>> todo{{kTraining, training_info}};
  while (!todo.empty()) {
    const auto [kind, wire] = todo.back();
    todo.pop_back();
    for (Reader r(wire, wire.data()); r.next();) {
      if (r.type() != kBytes) {
        r.skip();
        continue;
      }
      const wire::Field field = r.field();
      const std::string_view bytes = r.bytes();
      const auto is = [&](auto... fields) { return ((field == fields) || ...); };
      const bool graph = is(TrainingInfoProto::kInitialization, TrainingInfoProto::kAlgorithm);
      if (kind == kTraining) todo.emplace_back(graph ? kGraph : kBinding, bytes);
      if (kind == kBinding && is(StringStringEntryProto::kKey)) names.emplace(bytes);
      if (kind == kGraph && is(GraphProto::kNode)) todo.emplace_back(kNode, bytes);
      if (kind == kNode && is(NodeProto::kInput)) names.emplace(bytes);
      if (kind == kNode && is(NodeProto::kAttribute)) todo.emplace_back(kAttribute, bytes);
      if (kind == kAttribute && is(AttributeProto::kS, AttributeProto::kStrings)) names.emplace(bytes);
      if (kind == kAttribute && is(AttributeProto::kG, AttributeProto::kGraphs)) todo.emplace_back(kGraph, bytes);
    }
  }
}

struct Annotation {
  std::string_view tensor;
  std::vector<std::string_view> parameters;
};

Annotation read_annotation(std::string_view wire) {
  Annotation a;
  for (Reader r(wire, wire.data()); r.next();) {
    if (r.field() == TensorAnnotation::kTensorName) {
      a.tensor = r.bytes();
    } else if (r.field() == TensorAnnotation::kQuantParameterTensorNames) {
      const std::string_view entry = r.bytes();
      for (Reader e(entry, entry.data()); e.next();) {
        if (e.field() == StringStringEntryProto::kValue) {
          a.parameters.push_back(e.bytes());
        } else {
          e.skip();
        }
      }
    } else {
      r.skip();
    }
  }
  return a;
}

using ByName = std::unordered_map<std::string_view, Value*>;

ByName values_of(Graph& g) {
  ByName all;
  const auto add = [&](std::string_view name, Value& v) {
    if (!name.empty()) all.try_emplace(name, &v);
  };
  for (const Port& p : g.inputs()) add(p.name.view(), *p.value);
  for (const Port& p : g.outputs()) add(p.name.view(), *p.use->value);
  for (Value* c : g.constants()) add(c->name().view(), *c);
  for (Node& n : g.nodes()) {
    for (Value& v : n.results()) add(v.name().view(), v);
  }
  return all;
}

}  // namespace

struct OutsideNames::State {
  struct Variable {
    Value* input;
    const Value* was;  // erased; the file's record still refers to it
    std::string name;
    TensorPtr payload;
  };
  struct Meaning {
    TensorPtr payload;           // of a constant
    const Type* type = nullptr;  // of other values
  };

  Model& m;
  std::vector<Variable> variables;
  std::set<std::string> pinned;                                           // results that are outputs for now
  std::map<Graph*, std::unordered_map<std::string_view, Meaning>> meant;  // used by annotations

  void make_variable(Value& c) {
    Graph& g = m.graph();
    const Name name = c.name();
    variables.push_back({g.add_input(name.view(), c.type()), &c, std::string(name.view()), c.constant()});
    g.replace_uses(c, *variables.back().input);
    g.erase_constant(c);
  }

  void make_constant(const Variable& v) {
    Graph& g = m.graph();
    const auto port = std::ranges::find(g.inputs(), v.input, &Port::value);
    const bool is_there = port != g.inputs().end();  // an option may drop inputs without users
    if (is_there) v.input->set_name({});
    Value* c = g.add_constant(v.payload, v.name);
    if (is_there) {
      g.replace_uses(*v.input, *c);
      g.remove_input(static_cast<size_t>(port - g.inputs().begin()));
    }
    m.edit_file_record().keep(*v.was, *c);
  }

  void unpin(const std::string& name) {
    Graph& g = m.graph();
    const auto port = std::ranges::find(g.outputs(), name, [](const Port& p) { return p.name.view(); });
    if (port == g.outputs().end()) return;
    Value* v = port->use->value;
    g.remove_output(static_cast<size_t>(port - g.outputs().begin()));
    if (v->name().view() == name) return;
    if (v->name().empty() && v->def() != nullptr) return v->set_name(m.name(name));
    Value* operands[] = {v};
    Node& n = m.new_node(m.op("", "Identity"), operands, 1);
    g.append(n);
    n.result()->set_type(v->type());
    n.result()->set_name(m.name(name));
  }

  static bool is_same(const Meaning& meant, const Value& v) {
    if (meant.payload != nullptr)
      return v.is_constant() && (v.constant() == meant.payload || v.constant()->equals(*meant.payload));
    const Type *was = meant.type, *is = v.type();
    if (was == is || was == nullptr || is == nullptr || !was->is_tensor() || !is->is_tensor()) return true;
    if (was->dtype() != is->dtype()) return false;
    if (!was->ranked() || !is->ranked()) return true;
    return std::ranges::equal(was->dims(), is->dims(), [](Dim a, Dim b) { return a == b || !(a.is_int() && b.is_int()); });
  }

  void keep_annotations(Graph& g) {
    const auto of_graph = meant.find(&g);
    if (of_graph == meant.end()) return;
    const auto& before = of_graph->second;
    ByName now = values_of(g);
    const auto keeps_meaning = [&](std::string_view name) {
      const auto was = before.find(name);
      const auto is = now.find(name);
      return was == before.end() || (is != now.end() && is_same(was->second, *is->second));
    };
    std::erase_if(m.edit_file_record().graphs[&g].quantization_annotations, [&](std::string_view wire) {
      const Annotation a = read_annotation(wire);
      if (!keeps_meaning(a.tensor)) return true;
      for (std::string_view p : a.parameters) {
        const auto was = before.find(p);
        if (was != before.end() && was->second.payload != nullptr && !now.contains(p))
          now[p] = g.add_constant(was->second.payload, p);
        if (!keeps_meaning(p)) return true;
      }
      return false;
    });
  }
};

OutsideNames::OutsideNames(Model& m) {
  const std::vector<Graph*> graphs = all_graphs(m);
  const FileRecord& record = m.file_record();
  const bool annotated = std::ranges::any_of(graphs, [&](Graph* g) { return !record.of(*g).quantization_annotations.empty(); });
  if (record.model.training_info.empty() && !annotated) return;
  state_ = std::make_unique<State>(State{m, {}, {}, {}});
  for (Graph* g : graphs) {
    if (record.of(*g).quantization_annotations.empty()) continue;
    const ByName values = values_of(*g);
    for (std::string_view wire : record.of(*g).quantization_annotations) {
      Annotation a = read_annotation(wire);
      a.parameters.push_back(a.tensor);
      for (std::string_view name : a.parameters) {
        if (const auto v = values.find(name); v != values.end())
          state_->meant[g].emplace(name, State::Meaning{v->second->constant(), v->second->type()});
      }
    }
  }
  std::set<std::string, std::less<>> names;
  for (std::string_view t : record.model.training_info) collect(t, names);
  Graph& g = m.graph();
  const ByName values = values_of(g);
  for (const std::string& name : names) {
    const auto v = values.find(name);
    if (v == values.end() || v->second->graph() != &g || v->second->name().view() != name) continue;
    const bool is_output = std::ranges::any_of(g.outputs(), [&](const Port& p) { return p.name.view() == name; });
    const bool is_input = std::ranges::any_of(g.inputs(), [&](const Port& p) { return p.name.view() == name; });
    if (is_output || is_input) continue;
    if (v->second->kind() == ValueKind::kConstant) {
      state_->make_variable(*v->second);
    } else {
      g.add_output(*v->second, name);
      state_->pinned.insert(name);
    }
  }
}

OutsideNames::~OutsideNames() = default;

void OutsideNames::restore() {
  if (state_ == nullptr) return;
  for (const std::string& name : state_->pinned) state_->unpin(name);
  for (const State::Variable& v : state_->variables) state_->make_constant(v);
  for (Graph* g : all_graphs(state_->m)) state_->keep_annotations(*g);
}

}  // namespace sardonyx
