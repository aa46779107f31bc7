//   x: rank 0 ── sub(c) ─┬─ expand_dims<0>    =>    expand_dims<0>(x) ── sub(expand_dims<0>(c)) ─┬─
//                        └─ others                                                               └─ squeeze ── others
//
// For add, sub, mul, real_div and floor_div with one constant. Core ML gives the result of such an op rank 1;
// other users get it through a squeeze. There may be only one expand_dims, in the same block, and the block
// may not return the value in between. A walk, since it replaces the results of two nodes. After coremltools'
// pass of this name.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

bool is_arithmetic(const Node& n) {
  static constexpr std::array<std::string_view, 5> kOps = {"add", "sub", "mul", "real_div", "floor_div"};
  return !n.unchecked() && std::ranges::find(kOps, n.op().name) != kOps.end();
}

bool is_scalar(const Value* v) { return v != nullptr && v->ranked() && v->type()->rank() == 0; }

// The only expand_dims among the users of n's result; null if n stays.
Node* only_expand_dims(Node& n, PassContext& context) {
  const Value *x = operand(n, context, "x"), *y = operand(n, context, "y");
  if (!is_scalar(x) || !is_scalar(y) || x->is_constant() == y->is_constant()) return nullptr;
  Node* found = nullptr;
  for (const Use& u : n.result()->uses()) {
    if (u.owner->is_boundary()) return nullptr;
    if (!u.owner->is("expand_dims")) continue;
    if (found != nullptr || u.owner->graph() != n.graph()) return nullptr;
    found = u.owner;
  }
  if (found == nullptr) return nullptr;
  return ExpandDims(*found, context.facts).ints_in("axes") == std::vector<int64_t>{0} ? found : nullptr;
}

// n gets operands with an axis, from expand_dims before it.
void swap(Graph& g, Node& n, Node& expand, PassContext& context) {
  Rewriter b(g, context);
  b.set_insertion_point(&n);
  b.set_provenance(n.provenance());
  Value* one = b.expand_dims(operand(n, context, "x"), {.axes = {0}});
  Value* other = b.expand_dims(operand(n, context, "y"), {.axes = {0}});
  Value* wide = b.like(n, {{"x", one}, {"y", other}});
  wide->set_name(expand.result()->name());
  g.replace_uses(*expand.result(), *wide);
  g.erase(expand);
  if (n.result()->has_uses()) g.replace_uses(*n.result(), *b.squeeze(wide));
  g.erase(n);
}

size_t swap_all(Graph& g, PassContext& context) {
  std::vector<Node*> nodes;
  NodeMap<size_t> place(g.model(), 0);
  for (Node& n : g.nodes()) {
    if (!is_arithmetic(n)) continue;
    place[n] = nodes.size();
    nodes.push_back(&n);
  }
  // In rounds, each in order: after a swap, an expand_dims follows the ops that compute the operands.
  std::set<size_t> round, next;
  for (size_t i = 0; i < nodes.size(); ++i) round.insert(round.end(), i);
  size_t swapped = 0;
  for (; !round.empty(); round = std::exchange(next, {})) {
    for (size_t i : round) {
      Node& n = *nodes[i];
      Node* expand = n.alive() ? only_expand_dims(n, context) : nullptr;
      if (expand == nullptr) continue;
      for (std::string_view slot : {"x", "y"}) {
        Node* before = operand(n, context, slot)->def();
        if (before != nullptr && before->graph() == &g && is_arithmetic(*before)) next.insert(place[*before]);
      }
      swap(g, n, *expand, context);
      ++swapped;
    }
  }
  return swapped;
}

}  // namespace

Pass rank0_expand_dims_swap() {
  return Pass::on_graph(Numerics::kExact, needs({"expand_dims"}), [](Graph& top, PassContext& context) {
    size_t swapped = 0;
    for (Graph* g : graphs_in(top)) swapped += swap_all(*g, context);
    context.log.count("swapped", swapped);
    return swapped > 0;
  });
}

}  // namespace sardonyx::mil
