#include "ir/infer/infer_anew.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sardonyx {
namespace {

template <class F>
void for_each_node(Model& m, const F& f) {
  for (const auto& function : m.functions()) {
    std::vector<Graph*> stack{&function->graph()};
    while (!stack.empty()) {
      Graph& g = *stack.back();
      stack.pop_back();
      for (Node& n : g.nodes()) {
        for (const Body& b : n.bodies()) stack.push_back(b.graph);
        if (!f(n)) return;
      }
    }
  }
}

bool is_open(const Type* t) {
  return t == nullptr || (t->is_tensor() && (!t->ranked() || !std::ranges::all_of(t->dims(), &Dim::is_int)));
}

// `found`, completed with ranks and numbers that only `old` has. Names of sizes are not kept: other values of
// that size lost them.
const Type* with_ranks_and_numbers(Types& types, const Type* found, const Type* old) {
  if (found == nullptr) return old;
  if (!found->is_tensor() || !old->is_tensor() || !old->ranked() || types.meet(found, old) == nullptr) return found;
  if (!found->ranked()) return old;
  std::vector<Dim> dims(found->dims().begin(), found->dims().end());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is_int() && old->dim(i).is_int()) dims[i] = old->dim(i);
  }
  return types.with_dims(found, dims);
}

// Whether `now` knows an element that `before` does not.
bool says_more(const SymbolicValue& now, const SymbolicValue* before) {
  if (before == nullptr || before->elements.size() != now.elements.size()) return true;
  for (size_t i = 0; i < now.elements.size(); ++i) {
    if (!now.elements[i].is_anonymous() && now.elements[i] != before->elements[i]) return true;
  }
  return false;
}

// Whether the node gives sizes that are numbers by now.
bool is_known_shape(const Node& n) {
  const Type* t = (n.is("Shape") || n.is("Size")) && n.input(0) != nullptr ? n.input(0)->type() : nullptr;
  return t != nullptr && t->is_tensor() && t->is_static();
}

}  // namespace

bool may_tell_more(Model& m) {
  bool found = m.functions().size() > 1;
  for (const Port& p : m.graph().inputs()) found |= is_open(p.value->type());
  for_each_node(m, [&](Node& n) {
    found |= is_known_shape(n) || std::ranges::any_of(n.results(), [](const Value& v) { return is_open(v.type()); });
    return !found;
  });
  return found;
}

void leave_ill_typed(Model& m) {
  std::vector<Node*> left;
  std::vector<Graph*> stack;
  for (const auto& f : m.functions()) stack.push_back(&f->graph());
  while (!stack.empty()) {
    Graph& g = *stack.back();
    stack.pop_back();
    for (Node& n : g.nodes()) {
      if (n.unchecked()) left.push_back(&n);
      if (!n.op().known) continue;  // inference does not look at the bodies
      for (const Body& b : n.bodies()) stack.push_back(b.graph);
    }
  }
  const auto leave = [&](Node* n) {
    if (n == nullptr || n->unchecked() || n->is_boundary()) return;
    n->set_unchecked(true);
    left.push_back(n);
  };
  for (size_t i = 0; i < left.size(); ++i) {
    const Node& n = *left[i];
    for (const Use& u : n.operands()) {
      if (u.value != nullptr) leave(u.value->def());
    }
    for (const Body& b : n.bodies()) {
      for (Node& inner : b.graph->nodes()) leave(&inner);
    }
    if (n.graph() != nullptr) leave(n.graph()->parent());  // which passes values into this body
  }
}

bool infer_anew(Model& m, ValueFacts& facts) {
  std::vector<std::pair<Value*, const Type*>> before;
  for_each_node(m, [&](Node& n) {
    const bool derived = n.op().infer != nullptr && !n.has(Trait::kConstant) && !n.unchecked();
    for (Value& v : n.results()) {
      if (!derived || v.type() == nullptr) continue;
      before.emplace_back(&v, v.type());
      v.set_type(nullptr);
    }
    return true;
  });
  const ValueFacts known = std::exchange(facts, ValueFacts());
  infer_model(m, facts, /*tolerant=*/true);
  bool kept = false, changed = false;
  for (const auto& [v, old] : before) {
    const Type* both = with_ranks_and_numbers(m.types(), v->type(), old);
    changed |= both != old;
    if (both == v->type()) continue;
    kept = true;
    v->set_type(both);
  }
  if (kept) infer_model(m, facts, /*tolerant=*/true);
  leave_ill_typed(m);
  for_each_node(m, [&](Node& n) {
    for (const Value& v : n.results()) {
      const SymbolicValue* now = facts.find(v);
      changed |= now != nullptr && says_more(*now, known.find(v));
    }
    return !changed;
  });
  return changed;
}

}  // namespace sardonyx
