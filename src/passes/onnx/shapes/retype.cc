#include "passes/onnx/shapes/retype.h"

#include <algorithm>
#include <vector>

#include "sardonyx/error.h"

namespace sardonyx::onnx {
namespace {

constexpr int kMostWalks = 3;

// Whether types are static and, for integers of rank 0 or 1, inference knows all elements.
bool is_known(const Node& n, const ValueFacts& facts) {
  return std::all_of(n.results().begin(), n.results().end(), [&](const Value& v) {
    const Type* t = v.type();
    if (t == nullptr || !t->is_tensor() || !t->is_static()) return false;
    if (t->rank() > 1 || !(is_integer(t->dtype()) || t->dtype() == DType::kBool)) return true;
    const SymbolicValue* known = facts.find(v);
    return known != nullptr && std::ranges::all_of(known->elements, &Dim::is_int);
  });
}

}  // namespace

void Retyper::note_readers(const Value& v) {
  for (const Use& u : v.uses()) {
    const Node* n = u.owner->is_boundary() ? u.owner->graph()->parent() : u.owner;
    if (n != nullptr && !n->unchecked() && !is_known(*n, context_.facts)) stale_.insert(n);
  }
}

void Retyper::refresh(Node& n) {
  if (stale_.empty() || stale_.erase(&n) == 0) return;
  struct Before {
    const Type* type;
    std::optional<SymbolicValue> elements;
  };
  std::vector<Before> before;
  for (const Value& v : n.results()) {
    const SymbolicValue* known = context_.facts.find(v);
    before.push_back({v.type(), known != nullptr ? std::optional(*known) : std::nullopt});
  }
  try {
    infer_node(n, context_.facts);
  } catch (const Error&) {  // the node cannot run; the runtime reports that
    for (size_t i = 0; i < before.size(); ++i) n.result(i)->set_type(before[i].type);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    const SymbolicValue* known = context_.facts.find(*n.result(i));
    const bool same_elements = known == nullptr || (before[i].elements && before[i].elements->elements == known->elements);
    if (n.result(i)->type() != before[i].type || !same_elements) note_readers(*n.result(i));
  }
}

void Retyper::run(Graph& top) {
  for (int walk = 0; walk < kMostWalks && !stale_.empty(); ++walk) {
    for (Graph* g : graphs_in(top)) {
      for (Node& n : g->nodes()) {
        if (stale_.empty()) return;
        refresh(n);
      }
    }
  }
}

}  // namespace sardonyx::onnx
