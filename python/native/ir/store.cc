#include "native/ir/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/use_list.h"

namespace sardonyx::python {

namespace {

// Values that nothing reads yet share models of this many values: making a model for each would be slow, and one for all
// would never be freed.
constexpr uint32_t kLobbyValues = 4096;

std::unordered_map<const Model*, std::weak_ptr<Store>>& stores_of_models() {
  static auto* table = new std::unordered_map<const Model*, std::weak_ptr<Store>>;
  return *table;
}

}  // namespace

void refuse_type(std::string_view message) {
  nb::object type = nb::module_::import_("sardonyx._error").attr("WrongType");
  PyErr_SetObject(type.ptr(), type(nb::str(message.data(), message.size())).ptr());
  throw nb::python_error();
}

StorePtr Store::make() {
  auto s = std::make_shared<Store>();
  s->model = std::make_shared<Model>(DialectId::kOnnx);
  // Until a graph says otherwise, operators are those of the newest opset.
  if (int newest = dialect(DialectId::kOnnx).latest_version("")) s->model->set_opset_version("", newest);
  return s;
}

StorePtr Store::of(std::shared_ptr<Model> model) {
  std::weak_ptr<Store>& known = stores_of_models()[model.get()];
  if (StorePtr s = known.lock()) {
    if (s->model == model) return s;
  }
  auto s = std::make_shared<Store>();
  s->model = std::move(model);
  s->owned = true;
  known = s;
  return s;
}

Store::~Store() {
  auto known = stores_of_models().find(model.get());
  if (known != stores_of_models().end() && known->second.expired()) stores_of_models().erase(known);
}

StorePtr Store::now() {
  StorePtr s = shared_from_this();
  while (s->moved_to != nullptr) s = s->moved_to;
  return s;
}

StorePtr lobby() {
  // Never destroyed: it may hold Python objects, which must not be let go after the interpreter has ended.
  static auto* current = new StorePtr;
  if (*current == nullptr || (*current)->model->value_id_limit() >= kLobbyValues) {
    *current = Store::make();
    (*current)->lobby = true;
  }
  return *current;
}

// ---------------------------------------------------------------------------------------------------------------------
// Handles

PythonClasses& python_classes() {
  static PythonClasses classes;
  return classes;
}

namespace {

template <class H, class T>
nb::object wrap_as(nb::handle type, const StorePtr& s, T* p) {
  if (p == nullptr) return nb::none();
  if (auto at = s->handles.find(p); at != s->handles.end()) {
    H& live_one = *static_cast<H*>(static_cast<Handle<T>*>(at->second));
    return nb::find(live_one);
  }
  nb::object o = nb::inst_alloc(type);
  new (nb::inst_ptr<H>(o)) H(s, p);
  nb::inst_mark_ready(o);
  return o;
}

}  // namespace

nb::object wrap(const StorePtr& s, Value* v) { return wrap_as<PyValue>(python_classes().value, s, v); }
nb::object wrap(const StorePtr& s, Node* n) { return wrap_as<PyNode>(python_classes().node, s, n); }
nb::object wrap(const StorePtr& s, Graph* g) { return wrap_as<PyGraph>(python_classes().graph, s, g); }
nb::object wrap_model(const StorePtr& s) { return wrap_as<PyModel>(python_classes().model, s, s->model.get()); }

nb::object wrap(const StorePtr& s, Function* f) {
  nb::object o = wrap_as<PyFunction>(python_classes().function, s, f);
  if (f != nullptr) {
    auto* h = nb::inst_ptr<PyFunction>(o);
    if (!h->graph.is_valid()) h->graph = wrap(s, &f->graph());
  }
  return o;
}

nb::object wrap_tensor(TensorPtr t, std::optional<std::string> name) {
  if (t == nullptr) return nb::none();
  nb::object o = nb::inst_alloc(python_classes().tensor);
  auto* h = new (nb::inst_ptr<PyTensor>(o)) PyTensor;
  h->tensor = std::move(t);
  h->name = std::move(name);
  nb::inst_mark_ready(o);
  return o;
}

Value& live(const PyValue& v) {
  if (v.ptr == nullptr) refuse("this value was never initialized", {"call Value.__init__ from your class"});
  if (v.ptr->kind() == ValueKind::kResult && !v.ptr->def()->alive()) {
    refuse(fmt::format("value '{}' is gone: its node was erased", v.ptr->name().view()),
           {"an optimization or another edit removed it; look it up in the graph again"});
  }
  return *v.ptr;
}

Node& live(const PyNode& n) {
  if (n.ptr == nullptr) refuse("this node was never initialized", {"call Node.__init__ from your class"});
  if (!n.ptr->alive()) {
    refuse(fmt::format("node '{}' ({}) is gone: it was erased", n.ptr->name().view(), n.ptr->op().name),
           {"an optimization or another edit removed it; look it up in the graph again"});
  }
  return *n.ptr;
}

Graph& live(const PyGraph& g) {
  if (g.ptr == nullptr) refuse("this graph was never initialized", {"call Graph.__init__ from your class"});
  return *g.ptr;
}

std::string describe(const Value& v) {
  std::string name = value_name(v);
  if (!name.empty()) return fmt::format("value '{}'", name);
  if (Node* n = v.def()) return fmt::format("result {} of {}", v.index(), describe(*n));
  return "an unnamed value";
}

std::string describe(const Node& n) {
  return n.name().empty() ? fmt::format("an unnamed {} node", n.op().name)
                          : fmt::format("node '{}' ({})", n.name().view(), n.op().name);
}

std::string describe(const Graph& g) {
  return g.name().empty() ? std::string("an unnamed graph") : fmt::format("graph '{}'", g.name().view());
}

// ---------------------------------------------------------------------------------------------------------------------
// Moving

namespace {

struct Moved {
  std::unordered_map<const Value*, Value*> values;
  std::unordered_map<const Node*, Node*> nodes;
  std::unordered_map<const Graph*, Graph*> graphs;
};

// Which object became which: `b` is a clone of `a`, so both walks meet the same things in the same order.
void match(Graph& a, Graph& b, Moved& moved) {
  std::vector<std::pair<Graph*, Graph*>> stack{{&a, &b}};
  while (!stack.empty()) {
    auto [from, to] = stack.back();
    stack.pop_back();
    moved.graphs[from] = to;
    for (size_t i = 0; i < from->inputs().size(); ++i) moved.values[from->input(i)] = to->input(i);
    for (size_t i = 0; i < from->constants().size(); ++i) moved.values[from->constants()[i]] = to->constants()[i];
    Node* other = to->first();
    for (Node& n : from->nodes()) {
      SX_CHECK(other != nullptr && other->num_results() == n.num_results(), "a clone differs from its original");
      moved.nodes[&n] = other;
      for (size_t i = 0; i < n.num_results(); ++i) moved.values[n.result(i)] = other->result(i);
      for (size_t i = 0; i < n.bodies().size(); ++i) stack.emplace_back(n.bodies()[i].graph, other->bodies()[i].graph);
      other = other->next();
    }
  }
}

// What a graph, with all that is nested in it, defines and reads.
struct Content {
  std::vector<Value*> defined;
  std::unordered_set<const Value*> own;
  std::unordered_set<const Node*> nodes;  // boundaries included
  std::vector<Value*> read;
  // Read before it is defined, or from where it cannot be seen: legal while a graph is being edited.
  std::vector<Value*> astray;
};

bool sees(const Graph* reader, const Graph* home) {
  while (reader != nullptr && reader != home) reader = reader->enclosing();
  return reader == home;
}

void look_through(Graph& g, Content& c) {
  std::vector<Graph*> stack{&g};
  while (!stack.empty()) {
    Graph& at = *stack.back();
    stack.pop_back();
    auto define = [&](Value& v) {
      c.defined.push_back(&v);
      c.own.insert(&v);
    };
    auto read = [&](Value* v) {
      if (v == nullptr) return;
      c.read.push_back(v);
      if (v->graph() != nullptr && (!c.own.contains(v) || !sees(&at, v->graph()))) c.astray.push_back(v);
    };
    for (const Port& p : at.inputs()) define(*p.value);
    for (Value* v : at.constants()) define(*v);
    c.nodes.insert(&at.boundary());
    for (Node& n : at.nodes()) {
      c.nodes.insert(&n);
      for (const Use& u : n.operands()) read(u.value);
      for (Value& v : n.results()) define(v);
      for (const Body& b : n.bodies()) stack.push_back(b.graph);
    }
    for (const Port& p : at.outputs()) read(p.use->value);
  }
}

template <class T>
void rebind(void* handle, const StorePtr& to, T* p) {
  auto* h = static_cast<Handle<T>*>(handle);
  h->store = to;
  h->ptr = p;
  to->handles[p] = h;
}

template <class Key, class T, class Map>
void rekey(std::unordered_map<const Key*, T>& from, std::unordered_map<const Key*, T>& to, const Map& moved) {
  for (auto at = from.begin(); at != from.end();) {
    auto found = moved.find(at->first);
    if (found == moved.end()) {
      ++at;
      continue;
    }
    to[found->second] = std::move(at->second);
    at = from.erase(at);
  }
}

// Points handles and side tables at the new objects.
void follow(Store& from, const StorePtr& to, const Moved& moved) {
  for (auto at = from.handles.begin(); at != from.handles.end();) {
    bool found = true;
    if (auto v = moved.values.find(static_cast<const Value*>(at->first)); v != moved.values.end()) {
      rebind<Value>(at->second, to, v->second);
    } else if (auto n = moved.nodes.find(static_cast<const Node*>(at->first)); n != moved.nodes.end()) {
      rebind<Node>(at->second, to, n->second);
    } else if (auto g = moved.graphs.find(static_cast<const Graph*>(at->first)); g != moved.graphs.end()) {
      rebind<Graph>(at->second, to, g->second);
    } else {
      found = false;
    }
    at = found ? from.handles.erase(at) : std::next(at);
  }
  for (auto at = from.meta.begin(); at != from.meta.end();) {
    const void* target = nullptr;
    if (auto v = moved.values.find(static_cast<const Value*>(at->first)); v != moved.values.end()) target = v->second;
    if (auto n = moved.nodes.find(static_cast<const Node*>(at->first)); n != moved.nodes.end()) target = n->second;
    if (auto g = moved.graphs.find(static_cast<const Graph*>(at->first)); g != moved.graphs.end()) target = g->second;
    if (target != nullptr) to->meta[target] = at->second;
    at = target != nullptr ? from.meta.erase(at) : std::next(at);
  }
  rekey(from.loose_info, to->loose_info, moved.values);
  rekey(from.tensors, to->tensors, moved.values);
  rekey(from.auto_named, to->auto_named, moved.values);
  rekey(from.absent, to->absent, moved.values);
  rekey(from.versions, to->versions, moved.nodes);
  rekey(from.graph_facts, to->graph_facts, moved.graphs);
  for (auto& [old_graph, g] : moved.graphs) {
    if (auto f = to->graph_facts.find(g); f != to->graph_facts.end()) {
      f->second.initializers.clear();
      std::unordered_set<const Graph*> joined;
      for (const Graph* nested : f->second.joined) {
        if (auto at = moved.graphs.find(nested); at != moved.graphs.end()) joined.insert(at->second);
      }
      f->second.joined = std::move(joined);
    }
  }
}

// The same for one value, in constant time; also within one store.
void follow(const StorePtr& from, const StorePtr& to, Value& a, Value& b) {
  auto move_entry = [&](auto& source, auto& target, const auto* old_key, const auto* new_key) {
    auto at = source.find(old_key);
    if (at == source.end()) return;
    auto entry = std::move(at->second);
    source.erase(at);
    target[new_key] = std::move(entry);
  };
  if (auto at = from->handles.find(&a); at != from->handles.end()) {
    void* handle = at->second;
    from->handles.erase(at);
    rebind<Value>(handle, to, &b);
  }
  move_entry(from->meta, to->meta, static_cast<const void*>(&a), static_cast<const void*>(&b));
  move_entry(from->loose_info, to->loose_info, &a, &b);
  move_entry(from->tensors, to->tensors, &a, &b);
  move_entry(from->auto_named, to->auto_named, &a, &b);
  move_entry(from->absent, to->absent, &a, &b);
}

Value& move_placeholder(Store& from, const StorePtr& to, Value& v) {
  Value& made = to->model->new_placeholder(v.name(), to->model->types().import(v.type(), from.model->types()));
  to->placeholders.push_back(&made);
  return made;
}

bool is_free(const Graph& g) { return g.parent() == nullptr && g.function() == nullptr; }

}  // namespace

void transfer(const StorePtr& from, const StorePtr& to, const std::vector<Node*>& nodes, const std::vector<Graph*>& graphs) {
  if (from == to) return;
  // Loose nodes travel as the nodes of a graph made for the journey.
  Graph& carrier = from->model->new_graph();
  auto unload = [](Graph& g) {
    std::vector<Node*> all;
    for (Node& n : g.nodes()) all.push_back(&n);
    for (Node* n : all) g.detach(*n);
    return all;
  };
  std::vector<Graph*> pieces{&carrier};
  pieces.insert(pieces.end(), graphs.begin(), graphs.end());
  std::vector<Content> contents(pieces.size());
  std::unordered_set<const Value*> defined;
  try {
    for (Node* n : nodes) carrier.append(*n);
    carrier.sort();
    for (size_t i = 0; i < pieces.size(); ++i) {
      look_through(*pieces[i], contents[i]);
      defined.insert(contents[i].own.begin(), contents[i].own.end());
    }
    for (const Content& c : contents) {
      for (Value* v : c.read) {
        if (defined.contains(v) || v->kind() == ValueKind::kPlaceholder) continue;
        refuse(fmt::format("{} belongs to another model", describe(*v)),
               {"a node that moves to another model can only read what moves with it",
                "clone the graph (graph.clone()), or give the node other inputs first: graph.remove(node, safe=True), "
                "node.replace_input_with(...)"});
      }
    }
  } catch (...) {
    unload(carrier);
    throw;
  }

  Moved moved;
  std::unordered_map<const Value*, Value*> outer;
  for (const Content& c : contents) {
    for (Value* v : c.read) {
      if (v->kind() != ValueKind::kPlaceholder || outer.contains(v)) continue;
      moved.values[v] = outer[v] = &move_placeholder(*from, to, *v);
    }
  }
  // What is not there yet when its reader is copied is bridged by placeholders until all have arrived.
  std::vector<std::pair<Value*, const Value*>> bridges;
  for (size_t i = 0; i < pieces.size(); ++i) {
    Graph* g = pieces[i];
    auto map = outer;
    auto bridge = [&](Value* v) {
      if (map.contains(v)) return;
      Value& made = to->model->new_placeholder();
      map[v] = &made;
      bridges.emplace_back(&made, v);
    };
    for (Value* v : contents[i].astray) bridge(v);
    for (Value* v : contents[i].read) {
      if (!contents[i].own.contains(v)) bridge(v);
    }
    Graph& made = to->model->new_graph(g->name());
    clone_graph(*g, made, map);
    match(*g, made, moved);
    if (g == &carrier) {
      for (Node* n : unload(made)) to->loose_nodes.push_back(n);
    } else {
      to->roots.push_back(&made);
    }
  }
  for (auto& [bridge, v] : bridges) UseList::move_all(*bridge, *moved.values.at(v));

  // The originals end. Readers that stay behind (of a node that was removed while it was read) get placeholders.
  for (Content& c : contents) {
    for (Value* v : c.defined) {
      Value* stays = nullptr;
      std::vector<Use*> left;
      for (Use& u : v->uses()) {
        const bool moves =
            std::any_of(contents.begin(), contents.end(), [&](const Content& x) { return x.nodes.contains(u.owner); });
        if (!moves) left.push_back(&u);
      }
      for (Use* u : left) {
        if (stays == nullptr) {
          stays = &from->model->new_placeholder(v->name(), v->type());
          from->placeholders.push_back(stays);
        }
        UseList::unlink(*u);
        UseList::link(*u, stays);
      }
    }
  }
  for (Graph* g : pieces) {
    g->clear_outputs();
    for (Node& n : g->nodes()) {
      for (size_t i = 0; i < n.num_inputs(); ++i) n.set_input(i, nullptr);
    }
  }
  for (Graph* g : pieces) {
    for (Node* n = g->last(); n != nullptr;) {
      Node* before = n->prev();
      // Only readers inside the graphs that end with it are left, when those read what they cannot see.
      for (Value& v : n->results()) {
        if (v.has_uses()) UseList::move_all(v, from->model->new_placeholder());
      }
      g->erase(*n);
      n = before;
    }
  }
  follow(*from, to, moved);
}

Graph& copy_graph(Graph& g, const StorePtr& to) {
  Content c;
  look_through(g, c);
  std::unordered_map<const Value*, Value*> bridges;
  for (Value* v : c.astray) {
    if (c.own.contains(v)) bridges.try_emplace(v, &to->model->new_placeholder());
  }
  Graph& made = to->model->new_graph(g.name().view());
  to->roots.push_back(&made);
  clone_graph(g, made, bridges);
  if (bridges.empty()) return made;
  Moved copies;
  match(g, made, copies);
  for (auto& [v, bridge] : bridges) UseList::move_all(*bridge, *copies.values.at(v));
  return made;
}

StorePtr combine(std::vector<StorePtr> stores) {
  std::vector<StorePtr> distinct;
  for (StorePtr& s : stores) {
    if (s == nullptr) continue;
    s = s->now();
    if (!s->lobby && std::find(distinct.begin(), distinct.end(), s) == distinct.end()) distinct.push_back(s);
  }
  if (distinct.empty()) return Store::make();
  StorePtr target = distinct.front();
  for (const StorePtr& s : distinct) {
    if (s->owned && target->owned && s != target) {
      refuse("values or nodes of two different models are mixed",
             {"one of them must be cloned (graph.clone(), model.clone()) or removed from its graph first"});
    }
    if (target->owned) continue;
    if (s->owned || s->model->value_id_limit() > target->model->value_id_limit()) target = s;
  }
  for (const StorePtr& s : distinct) {
    if (s == target) continue;
    std::vector<Node*> nodes;
    std::unordered_set<const Node*> seen;
    for (Node* n : s->loose_nodes) {
      if (n->alive() && !n->linked() && seen.insert(n).second) nodes.push_back(n);
    }
    std::vector<Graph*> graphs;
    std::unordered_set<const Graph*> seen_graphs;
    for (Graph* g : s->roots) {
      if (is_free(*g) && seen_graphs.insert(g).second) graphs.push_back(g);
    }
    transfer(s, target, nodes, graphs);
    // Placeholders that nothing read, but that somebody holds.
    Moved rest;
    for (Value* v : s->placeholders) {
      if (s->handles.contains(v) && v->kind() == ValueKind::kPlaceholder) rest.values[v] = &move_placeholder(*s, target, *v);
    }
    follow(*s, target, rest);
    s->moved_to = target;
  }
  return target;
}

Value* bring(const StorePtr& s, PyValue& v) {
  Value& at = live(v);
  if (v.store == s) return &at;
  SX_CHECK(v.store->lobby, "a value was not combined with its reader");
  StorePtr from = v.store;
  follow(from, s, at, move_placeholder(*from, s, at));
  return v.ptr;
}

// ---------------------------------------------------------------------------------------------------------------------
// Names, types and facts

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
    // A result of the graph is known by the name it has outside, if that is one name.
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
    // A value that is returned twice keeps distinct names outside.
    if (first || v.kind() != ValueKind::kInput) p.name = v.name();
    first = false;
  });
  if (Graph* g = v.graph()) {
    GraphFacts& facts = s.facts(outermost(*g));
    if (facts.names_known) facts.value_names.insert(std::string(name));
  }
}

FactsPlace find_facts(Store& s, Value& v) {
  if (v.kind() == ValueKind::kInput) {
    Port& p = v.graph()->input_port(v.index());
    return {&p.doc, &p.metadata};
  }
  if (Graph* g = output_of(v); g != nullptr && g == v.graph()) {
    for (size_t i = 0; i < g->outputs().size(); ++i) {
      Port& p = g->output_port(i);
      if (p.use->value == &v) return {&p.doc, &p.metadata};
    }
  }
  auto& table = v.graph() != nullptr ? v.graph()->value_info : s.loose_info;
  auto at = table.find(&v);
  if (at == table.end()) return {};
  return {&at->second.doc, &at->second.metadata};
}

FactsPlace edit_facts(Store& s, Value& v) {
  FactsPlace place = find_facts(s, v);
  if (place.doc == nullptr) {
    auto& table = v.graph() != nullptr ? v.graph()->value_info : s.loose_info;
    auto [at, fresh] = table.try_emplace(&v);
    ValueInfo& info = at->second;
    if (fresh && v.graph() != nullptr && v.kind() == ValueKind::kResult) info.declared = v.type();
    place = {&info.doc, &info.metadata};
  }
  // What the file said is no longer the whole truth.
  each_port(v, [](Port& p) { p.wire = {}; });
  if (Graph* g = v.graph()) {
    if (auto at = g->value_info.find(&v); at != g->value_info.end()) at->second.wire = {};
  }
  return place;
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
    info.wire = {};
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

// The names inside a nested graph join those around it. Names that were made here give way; the user's own stay.
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
        if (info == s.loose_info.end()) return;
        if (p.doc.empty()) p.doc = info->second.doc;
        if (p.metadata.empty()) p.metadata = info->second.metadata;
      });
    }
    // The payload of a Constant says its type already.
    const bool said =
        v.constant() != nullptr && v.type() == s.model->types().tensor(v.constant()->dtype(), v.constant()->shape());
    if (!returned && ((v.type() != nullptr && !said) || info != s.loose_info.end())) {
      ValueInfo& kept = g.value_info[&v];
      kept.declared = said ? nullptr : v.type();
      if (info != s.loose_info.end()) {
        kept.doc = std::move(info->second.doc);
        kept.metadata = std::move(info->second.metadata);
      }
    }
    if (info != s.loose_info.end()) s.loose_info.erase(info);
  }
  join_bodies(s, n);
}

void unlink(Store& s, Node& n) {
  Graph& g = *n.graph();
  for (Value& v : n.results()) {
    FactsPlace place = find_facts(s, v);
    if (place.doc != nullptr && (!place.doc->empty() || !place.metadata->empty())) {
      s.loose_info[&v] = ValueInfo{.declared = nullptr, .doc = *place.doc, .metadata = *place.metadata};
    }
    g.value_info.erase(&v);
  }
  g.detach(n);
  s.loose_nodes.push_back(&n);
}

Value& uproot(const StorePtr& s, Value& v) {
  Value& stays = s->model->new_placeholder(value_name(v), v.type());
  s->placeholders.push_back(&stays);
  FactsPlace place = find_facts(*s, v);
  if (place.doc != nullptr && (!place.doc->empty() || !place.metadata->empty())) {
    s->loose_info[&stays] = ValueInfo{.declared = nullptr, .doc = *place.doc, .metadata = *place.metadata};
  }
  UseList::move_all(v, stays);
  follow(s, s, v, stays);
  return stays;
}

void plant(const StorePtr& s, Value& placeholder, Value& v) {
  s->model->fill(placeholder, v);
  follow(s, s, placeholder, v);
}

}  // namespace sardonyx::python
