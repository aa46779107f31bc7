// Moves nodes, graphs and values from one store to another. They are cloned, and handles and side tables
// follow.
#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/use_list.h"
#include "native/ir/store.h"

namespace sardonyx::python {

namespace {

struct Moved {
  std::unordered_map<const Value*, Value*> values;
  std::unordered_map<const Node*, Node*> nodes;
  std::unordered_map<const Graph*, Graph*> graphs;
};

// Maps each object of `a` to its copy. `b` is a clone of `a`, so both walks visit corresponding objects in
// the same order.
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

// The values that a graph and its nested graphs define and use.
struct Content {
  std::vector<Value*> defined;
  std::unordered_set<const Value*> own;
  std::unordered_set<const Node*> nodes;  // boundaries included
  std::vector<Value*> read;
  // Used before their definition, or from where they are not visible. Legal while a graph is being edited.
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

// Redirects handles and side tables to the new objects.
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
  // Loose nodes travel in a temporary graph.
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
  // A placeholder stands in for each value that is not there yet when its user is copied, until all have
  // arrived.
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

  // Erase the originals. Users that stay behind (of a node that was removed while it was used) get
  // placeholders.
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
      // The remaining users are inside the graphs being erased and use values that are not visible to them.
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
    // Placeholders that nothing uses but that a handle refers to.
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

Value& uproot(const StorePtr& s, Value& v) {
  Value& stays = s->model->new_placeholder(value_name(v), v.type());
  s->placeholders.push_back(&stays);
  keep_loose(*s, stays, notes_of(*s, v));
  UseList::move_all(v, stays);
  follow(s, s, v, stays);
  return stays;
}

void plant(const StorePtr& s, Value& placeholder, Value& v) {
  s->model->fill(placeholder, v);
  follow(s, s, placeholder, v);
}

}  // namespace sardonyx::python
