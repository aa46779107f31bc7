//   x: S ── Reshape ── Reshape ── z: S                          =>   x
//   x: S ── Reshape ── elementwise ... ── Reshape ── z: S       =>   x ── elementwise ... ── z
//
// Any number of connected elementwise nodes may stand between the two, and x may be several values of that
// shape. The original shape must provably be restored, only single elements may broadcast in between, and
// values in between must have no other users. A Reshape with other users stays for them. Unknown sizes equal
// only themselves.
// After jax2onnx's pass of this name, which follows first operands through at most eight nodes and treats
// unknown sizes as equal.
#include <algorithm>

#include "passes/onnx/layout/elementwise_region.h"

namespace sardonyx::onnx {
namespace {

bool is_reshape(const Node* n) { return n != nullptr && !n->unchecked() && n->is("Reshape"); }

bool has_dims(const Value& v, std::span<const Dim> dims) {
  return v.ranked() && std::equal(v.type()->dims().begin(), v.type()->dims().end(), dims.begin(), dims.end());
}

// Removes Reshapes whose operand is a Reshape that they undo.
bool remove_pairs(Graph& top, PassContext& context) {
  size_t pairs = 0;
  for (Graph* g : graphs_in(top)) {
    for (Node& n : g->nodes()) {
      if (!is_reshape(&n) || !is_reshape(n.input(0)->def()) || !n.result()->ranked()) continue;
      Node& first = *n.input(0)->def();
      Value& x = *first.input(0);
      if (!has_dims(x, n.result()->type()->dims())) continue;
      g->replace_uses(*n.result(), x);
      g->erase(n);
      if (!first.any_result_used()) first.graph()->erase(first);
      ++pairs;
    }
  }
  context.log.count("pairs", pairs);
  return pairs > 0;
}

// Whether all values that enter the region are reshaped from `outer` and all that leave are reshaped to it.
// Then element counts are equal throughout, and only single elements broadcast.
bool is_framed(const Region& region, std::span<const Dim> outer) {
  for (const Use* u : region.entries) {
    if (is_one_element(*u->value, outer.size())) continue;
    const Node* def = u->value->def();
    if (!is_reshape(def) || !has_dims(*def->input(0), outer)) return false;
  }
  for (const Use* u : region.exits) {
    if (!is_reshape(u->owner) || u->owner->operand_index(*u) != 0 || !has_dims(*u->owner->result(), outer)) return false;
  }
  return true;
}

bool unframe_reshapes(Graph& top, PassContext& context) {
  RegionFinder finder(context.model, is_elementwise);
  size_t regions = 0;
  for (Graph* g : graphs_in(top)) {
    for (Node& n : g->nodes()) {
      if (!is_reshape(&n) || !n.result()->ranked() || !finder.is_member(n.input(0)->def())) continue;
      const auto region = finder.around(*n.input(0)->def());
      if (!region) continue;
      const auto dims = n.result()->type()->dims();
      std::vector<Dim> outer(dims.begin(), dims.end());
      if (!is_framed(*region, outer)) continue;
      unframe(*region, "Reshape", context, [&](const Type&) { return outer; });
      ++regions;
    }
  }
  context.log.count("regions", regions);
  return regions > 0;
}

}  // namespace

Pass remove_redundant_reshape_pairs() {
  return Pass::on_graph(Numerics::kExact, needs({"Reshape"}), [](Graph& top, PassContext& context) {
    bool changed = remove_pairs(top, context);
    while (unframe_reshapes(top, context)) {
      remove_pairs(top, context);
      changed = true;
    }
    return changed;
  });
}

}  // namespace sardonyx::onnx
