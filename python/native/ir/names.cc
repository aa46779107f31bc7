// Names, declared types, doc strings and metadata of values, wherever the graph keeps them.
#include <fmt/format.h>

#include "native/ir/store.h"

namespace sardonyx::python {

Graph* output_of(const Value& v) {
  for (Use& u : v.uses()) {
    if (u.owner->is_boundary()) return u.owner->graph();
  }
  return nullptr;
}

namespace {

template <class See>
void each_port(const Value& v, See&& see) {
  if (v.kind() == ValueKind::kInput && v.graph() != nullptr) see(v.graph()->input_port(v.index()));
  for (Use& u : v.uses()) {
    if (!u.owner->is_boundary()) continue;
    Graph& g = *u.owner->graph();
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      if (g.output_port(i).use == &u) see(g.output_port(i));
    }
  }
}

}  // namespace

const TensorPtr& initializer_of(const Value& v) {
  static const TensorPtr none;
  if (v.kind() == ValueKind::kConstant) return v.constant();
  if (v.kind() == ValueKind::kInput) return v.graph()->inputs()[v.index()].default_value;
  return none;
}

std::string value_name(const Value& v) {
  if (v.kind() == ValueKind::kInput && v.index() < v.graph()->inputs().size()) {
    const Port& port = v.graph()->inputs()[v.index()];
    if (port.value == &v && !port.name.empty()) return std::string(port.name.view());
  }
  if (v.kind() == ValueKind::kResult) {
    // A result of the graph goes by its name in the signature, if it has just one.
    Name outside;
    int count = 0;
    each_port(v, [&](Port& p) { outside = p.name, ++count; });
    if (count == 1 && !outside.empty()) return std::string(outside.view());
  }
  return std::string(v.name().view());
}

namespace {

Graph& outermost(Graph& g) {
  Graph* at = &g;
  while (at->enclosing() != nullptr) at = at->enclosing();
  return *at;
}

void add_names(GraphFacts& facts, Graph& g) {
  for (const Port& p : g.inputs()) facts.value_names.emplace(p.name.view());
  for (const Port& p : g.outputs()) facts.value_names.emplace(p.name.view());
  for (const Value* c : g.constants()) facts.value_names.emplace(c->name().view());
  for (Node& n : g.nodes()) {
    if (!n.name().empty()) facts.node_names.emplace(n.name().view());
    for (const Value& v : n.results()) facts.value_names.emplace(v.name().view());
  }
}

GraphFacts& known_names(Store& s, Graph& inner) {
  Graph& g = outermost(inner);
  GraphFacts& facts = s.facts(g);
  if (facts.names_known) return facts;
  facts.names_known = true;
  std::vector<Graph*> stack{&g};
  while (!stack.empty()) {
    Graph& at = *stack.back();
    stack.pop_back();
    add_names(facts, at);
    for (Node& n : at.nodes()) {
      for (const Body& b : n.bodies()) {
        stack.push_back(b.graph);
        facts.joined.insert(b.graph);
      }
    }
  }
  return facts;
}

}  // namespace

Value* find_initializer(Store& s, Graph& g, std::string_view name) {
  GraphFacts& facts = s.facts(g);
  auto good = [&](Value* v) {
    return v->kind() == ValueKind::kConstant && v->graph() == &g && v->constant() != nullptr && v->name().view() == name;
  };
  if (facts.initializers.size() != g.constants().size()) {
    facts.initializers.clear();
    for (Value* v : g.constants()) facts.initializers.emplace(v->name().view(), v);
  }
  auto at = facts.initializers.find(std::string(name));
  if (at != facts.initializers.end() && good(at->second)) return at->second;
  if (at != facts.initializers.end()) {
    for (Value* v : g.constants()) {
      if (good(v)) return v;
    }
  }
  for (const Port& p : g.inputs()) {
    if (p.default_value != nullptr && p.name.view() == name) return p.value;
  }
  return nullptr;
}

void rename(Store& s, Value& v, std::string_view name) {
  if (v.kind() == ValueKind::kConstant) {
    if (name.empty()) {
      refuse(fmt::format("initializer '{}' cannot lose its name", v.name().view()),
             {"take it out of graph.initializers first"});
    }
    Value* other = find_initializer(s, *v.graph(), name);
    if (other != nullptr && other != &v) {
      refuse(
          fmt::format("cannot rename initializer '{}' to '{}': there is an initializer of that name", v.name().view(), name));
    }
    auto& by_name = s.facts(*v.graph()).initializers;
    by_name.erase(std::string(v.name().view()));
    by_name.emplace(name, &v);
  }
  s.auto_named.erase(&v);
  v.set_name(s.model->name(name));
  bool first = true;
  each_port(v, [&](Port& p) {
    // A value that is returned twice keeps distinct names in the signature.
    if (first || v.kind() != ValueKind::kInput) p.name = v.name();
    first = false;
  });
  if (Graph* g = v.graph()) {
    GraphFacts& facts = s.facts(outermost(*g));
    if (facts.names_known) facts.value_names.insert(std::string(name));
  }
}

namespace {

// The port that holds v's notes: v's input port, or the first output port that returns v from its own graph.
// Null if there is none.
Port* port_with_notes(Value& v) {
  if (v.kind() == ValueKind::kInput) return &v.graph()->input_port(v.index());
  Graph* g = output_of(v);
  if (g == nullptr || g != v.graph()) return nullptr;
  for (size_t i = 0; i < g->outputs().size(); ++i) {
    if (g->output(i) == &v) return &g->output_port(i);
  }
  return nullptr;
}

}  // namespace

Notes notes_of(Store& s, Value& v) {
  if (const Port* p = port_with_notes(v)) return {p->doc, p->metadata};
  const auto& table = v.graph() != nullptr ? v.graph()->value_info : s.loose_info;
  const auto at = table.find(&v);
  return at != table.end() && at->second.notes != nullptr ? *at->second.notes : Notes{};
}

void set_notes(Store& s, Value& v, Notes notes) {
  if (Port* p = port_with_notes(v)) {
    p->doc = std::move(notes.doc);
    p->metadata = std::move(notes.metadata);
  } else {
    auto& table = v.graph() != nullptr ? v.graph()->value_info : s.loose_info;
    auto [at, fresh] = table.try_emplace(&v);
    if (fresh && v.graph() != nullptr && v.kind() == ValueKind::kResult) at->second.declared = v.type();
    at->second.notes = std::make_shared<const Notes>(std::move(notes));
  }
  // The entry read from the file is no longer complete.
  each_port(v, [](Port& p) { p.entry = 0; });
  if (Graph* g = v.graph()) {
    if (auto at = g->value_info.find(&v); at != g->value_info.end()) at->second.entry = 0;
  }
}

void keep_loose(Store& s, const Value& v, Notes notes) {
  if (!notes.doc.empty() || !notes.metadata.empty()) s.loose_info[&v].notes = std::make_shared<const Notes>(std::move(notes));
}

void declare(Value& v, const Type* type) {
  v.set_type(type);
  bool port = false;
  each_port(v, [&](Port& p) {
    p.declared = type;
    port = true;
  });
  if (v.kind() != ValueKind::kResult || port) return;
  if (Graph* g = v.graph()) {
    ValueInfo& info = g->value_info[&v];
    info.declared = type;
    info.entry = 0;
  }
}

void note_name(Store& s, Graph& g, const std::string& name) {
  GraphFacts& facts = s.facts(outermost(g));
  if (facts.names_known) facts.value_names.insert(name);
}

std::string fresh_value_name(Store& s, Graph& g, std::string_view base) {
  GraphFacts& facts = known_names(s, g);
  for (uint64_t i = base.empty() ? facts.next_value : 1;; ++i) {
    std::string name = base.empty() ? fmt::format("val_{}", i) : fmt::format("{}_{}", base, i);
    if (base.empty()) facts.next_value = i + 1;
    if (facts.value_names.insert(name).second) return name;
  }
}

namespace {

// Merges the names inside a nested graph with those around it. Generated names give way; the user's own names
// stay.
void join_names(Store& s, GraphFacts& facts, Graph& home, Graph& body) {
  std::vector<Graph*> stack{&body};
  auto join = [&](Value& v) {
    std::string name = value_name(v);
    if (name.empty() || facts.value_names.insert(name).second || !s.auto_named.contains(&v)) return;
    rename(s, v, fresh_value_name(s, home));
    s.auto_named[&v] = true;
  };
  while (!stack.empty()) {
    Graph& at = *stack.back();
    stack.pop_back();
    if (!facts.joined.insert(&at).second) continue;
    for (const Port& p : at.inputs()) join(*p.value);
    for (Value* c : at.constants()) join(*c);
    for (Node& n : at.nodes()) {
      for (Value& v : n.results()) join(v);
      for (const Body& b : n.bodies()) stack.push_back(b.graph);
    }
  }
}

}  // namespace

void join_bodies(Store& s, Node& n) {
  if (n.bodies().empty() || n.graph() == nullptr) return;
  GraphFacts& facts = known_names(s, *n.graph());
  for (const Body& b : n.bodies()) join_names(s, facts, *n.graph(), *b.graph);
}

void settle(Store& s, Node& n) {
  Graph& g = *n.graph();
  GraphFacts& facts = known_names(s, g);
  if (n.name().empty()) {
    for (;;) {
      std::string name = fmt::format("node_{}_{}", n.op().name, facts.next_node++);
      if (!facts.node_names.insert(name).second) continue;
      n.set_name(s.model->name(name));
      break;
    }
  } else {
    facts.node_names.emplace(n.name().view());
  }
  for (Value& v : n.results()) {
    if (v.name().empty() && s.absent.contains(&v)) continue;
    if (v.name().empty()) {
      rename(s, v, fresh_value_name(s, g));
      s.auto_named[&v] = true;
    } else {
      facts.value_names.emplace(v.name().view());
    }
    auto info = s.loose_info.find(&v);
    const bool returned = output_of(v) == &g;
    if (returned) {
      each_port(v, [&](Port& p) {
        if (p.declared == nullptr) p.declared = v.type();
        if (info == s.loose_info.end() || info->second.notes == nullptr) return;
        if (p.doc.empty()) p.doc = info->second.notes->doc;
        if (p.metadata.empty()) p.metadata = info->second.notes->metadata;
      });
    }
    // The payload of a Constant already states its type.
    const bool said =
        v.constant() != nullptr && v.type() == s.model->types().tensor(v.constant()->dtype(), v.constant()->shape());
    if (!returned && ((v.type() != nullptr && !said) || info != s.loose_info.end())) {
      ValueInfo& kept = g.value_info[&v];
      kept.declared = said ? nullptr : v.type();
      if (info != s.loose_info.end()) kept.notes = info->second.notes;
    }
    if (info != s.loose_info.end()) s.loose_info.erase(info);
  }
  join_bodies(s, n);
}

void unlink(Store& s, Node& n) {
  Graph& g = *n.graph();
  for (Value& v : n.results()) {
    keep_loose(s, v, notes_of(s, v));
    g.value_info.erase(&v);
  }
  g.detach(n);
  s.loose_nodes.push_back(&n);
}

}  // namespace sardonyx::python
