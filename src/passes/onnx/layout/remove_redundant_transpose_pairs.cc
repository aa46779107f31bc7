//   x ── Transpose<p> ── Transpose<p⁻¹> ── z                          =>   x
//
//   x ── Transpose<p> ──┐                                                  x ──┐
//                  elementwise ... ── Transpose<p⁻¹> ── z             =>    elementwise ... ── z
//   y ── Transpose<p> ──┘                                                  y ──┘
//
// The elementwise nodes in between form a region of any size and shape. Every value that enters must have
// gone through the same permutation or be a single element, and every value that leaves must go through the
// inverse. A region stays if one of its values has other users (including results of the graph and nested
// graphs) or another operand enters. Transposes with other users stay for them. A missing perm reverses the
// axes and composes like any other. Elements move; none is computed differently.
// Each round is linear in the graph. There are as many rounds as nested pairs with something in between.
// After jax2onnx's pass of this name, which looks at chains of at most eight nodes, forests of Add, and
// trees.
#include "passes/onnx/layout/remove_redundant_transpose_pairs.h"

#include <algorithm>

namespace sardonyx::onnx {
namespace {

bool is_transpose(const Node* n) { return n != nullptr && !n->unchecked() && n->is("Transpose"); }

// Removes Transposes whose operand is a Transpose that they undo.
bool remove_pairs(Graph& top, PassContext& context) {
  size_t pairs = 0;
  for (Graph* g : graphs_in(top)) {
    for (Node& n : g->nodes()) {
      if (!is_transpose(&n) || n.input(0) == nullptr || !is_transpose(n.input(0)->def())) continue;
      Node& first = *n.input(0)->def();
      const auto p = read::Transpose(first).perm(), q = read::Transpose(n).perm();
      if (!p || !q || inverse_of(*p) != *q || first.input(0) == nullptr) continue;
      Value& x = *first.input(0);
      if (const Type* both = context.model.types().meet(x.type(), n.result()->type())) x.set_type(both);
      g->replace_uses(*n.result(), x);
      g->erase(n);
      if (!first.any_result_used()) first.graph()->erase(first);
      ++pairs;
    }
  }
  context.log.count("pairs", pairs);
  return pairs > 0;
}

// Whether all values that enter the region went through p, and all that leave go through its inverse.
bool is_framed(const Region& region, RegionFinder& finder, std::span<const int64_t> p) {
  for (const Use* u : region.entries) {
    if (is_one_element(*u->value, p.size())) continue;
    const Node* def = u->value->def();
    if (!is_transpose(def) || def->input(0) == nullptr) return false;
    const auto perm = read::Transpose(*def).perm();
    if (!perm || !std::equal(perm->begin(), perm->end(), p.begin(), p.end())) return false;
    if (finder.holds(region, def->input(0)->def())) return false;  // a value of the region itself, in another order
  }
  const std::vector<int64_t> inverse = inverse_of(p);
  for (const Use* u : region.exits) {
    if (!is_transpose(u->owner) || read::Transpose(*u->owner).perm() != inverse) return false;
  }
  return true;
}

}  // namespace

bool unframe_transposes(Graph& top, PassContext& context, RegionFinder::Admits admits) {
  RegionFinder finder(context.model, admits);
  size_t regions = 0;
  for (Graph* g : graphs_in(top)) {
    for (Node& n : g->nodes()) {
      if (!is_transpose(&n) || n.input(0) == nullptr || !finder.is_member(n.input(0)->def())) continue;
      const auto region = finder.around(*n.input(0)->def());
      const auto q = read::Transpose(n).perm();
      if (!region || !q) continue;
      const std::vector<int64_t> p = inverse_of(*q);
      if (!is_framed(*region, finder, p)) continue;
      unframe(*region, "Transpose", context, [&](const Type& t) {
        std::vector<Dim> dims(t.dims().begin(), t.dims().end());
        for (size_t i = 0; i < p.size(); ++i) dims[static_cast<size_t>(p[i])] = t.dim(i);
        return dims;
      });
      ++regions;
    }
  }
  context.log.count("regions", regions);
  return regions > 0;
}

Pass remove_redundant_transpose_pairs() {
  return Pass::on_graph(Numerics::kExact, needs({"Transpose"}), [](Graph& top, PassContext& context) {
    bool changed = remove_pairs(top, context);
    while (unframe_transposes(top, context, is_elementwise)) {
      remove_pairs(top, context);
      changed = true;
    }
    return changed;
  });
}

}  // namespace sardonyx::onnx
