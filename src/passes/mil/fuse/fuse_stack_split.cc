//   x0, ..., xn-1 ── stack<a> ── split<a> into ones ── n × squeeze<a>    =>    n × identity
//
// Each piece must have one squeeze as its only user, or no user. The identities keep the names of results;
// noop_elimination removes the others. The stack stays for its other users. After coremltools' pass of this
// name.
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

// The squeeze that is the piece's only user and undoes the stack.
Node* squeeze_of(const Value& piece, size_t axis, PassContext& context) {
  if (!piece.has_one_use()) return nullptr;
  Node* n = (*piece.uses().begin()).owner;
  const auto squeeze = Squeeze::of(n, context.facts);
  if (!squeeze || n->graph() != piece.graph()) return nullptr;
  return squeeze->axes() == std::vector<int64_t>{static_cast<int64_t>(axis)} ? n : nullptr;
}

bool fuse(Node& stack, Node& split, PassContext& context) {
  const Stack stacked(stack, context.facts);
  const std::vector<Value*> values = stacked.values();
  const auto axis = stacked.axis();
  if (!values.front()->ranked() || !axis || Split(split, context.facts).axis() != axis) return false;
  std::vector<Node*> squeezes;
  for (const Value& piece : split.results()) {
    Node* n = piece.has_uses() ? squeeze_of(piece, *axis, context) : nullptr;
    if (n == nullptr && piece.has_uses()) return false;
    squeezes.push_back(n);
  }
  SX_CHECK(squeezes.size() == values.size(), "every stacked value has a squeeze");
  Graph& g = *split.graph();
  for (size_t i = 0; i < values.size(); ++i) {
    if (squeezes[i] == nullptr) continue;
    Node& squeeze = *squeezes[i];
    Rewriter b(g, context);
    b.set_insertion_point(&squeeze);
    b.set_provenance(squeeze.provenance());
    Value* same = b.identity(values[i]);
    if (same->type() == nullptr) same->set_type(squeeze.result()->type());
    same->set_name(squeeze.result()->name());
    same->def()->set_name(squeeze.name());
    g.replace_uses(*squeeze.result(), *same);
    g.erase(squeeze);
  }
  g.erase(split);
  return true;
}

bool fuse_splits(Node& stack, PassContext& context) {
  if (is_graph_result(*stack.result())) return false;
  std::vector<Node*> splits;
  for (const Use& u : stack.result()->uses()) {
    if (u.owner->is("split") && u.owner->graph() == stack.graph()) splits.push_back(u.owner);
  }
  bool changed = false;
  for (Node* split : splits) changed |= fuse(stack, *split, context);
  if (changed && !stack.any_result_used()) stack.graph()->erase(stack);
  return changed;
}

}  // namespace

Pass fuse_stack_split() {
  return Pass::on_graph(Numerics::kExact, needs({"stack"}), [](Graph& top, PassContext& context) {
    size_t fused = 0;
    for (Graph* g : graphs_in(top)) {
      for (Node& n : g->nodes()) {
        if (n.is("stack") && !n.unchecked() && fuse_splits(n, context)) ++fused;
      }
    }
    context.log.count("stacks", fused);
    return fused > 0;
  });
}

}  // namespace sardonyx::mil
