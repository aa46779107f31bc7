//   x ── Transpose<p> ──┐
//   y ── Transpose<p> ─ Add ──┐                               x ──┐
//   z ── Transpose<p> ─────── Add ── Transpose<p⁻¹> ──   =>   y ─ Add ──┐
//                              └──── Transpose<p⁻¹> ──        z ─────── Add ──
//
// Handles sums between a layout and its inverse, with any number of results. What stops it is the same as for
// remove_redundant_transpose_pairs, of which this is the part that only passes through Add. Elements move;
// each is computed as before.
// After jax2onnx's pass of this name.
#include "passes/onnx/layout/remove_redundant_transpose_pairs.h"

namespace sardonyx::onnx {

Pass remove_redundant_transpose_add_forests() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    const auto is_add = [](const Node& n) { return n.is("Add") && is_elementwise(n); };
    bool changed = false;
    while (unframe_transposes(top, context, is_add)) changed = true;
    return changed;
  });
}

}  // namespace sardonyx::onnx
