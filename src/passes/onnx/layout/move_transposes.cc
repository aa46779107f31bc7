//   x ── Transpose<0,3,1,2> ── Conv ── Transpose<0,2,3,1> ── Max(0) ── Transpose<0,3,1,2> ── Conv ──
//                      =>   x ── Transpose<0,3,1,2> ── Conv ── Max(0) ── Conv ──
//
// Moves transposes through the nodes around them, up and down, so that they meet and cancel. They pass
// through elementwise nodes (constants are transposed once, when they are written), reductions, Concat,
// Split, Slice, Pad, Softmax, ArgMax, Resize, Reshapes that keep axes together, and the other operators in
// passes/mincut/family.cc. The pass optimizes all transposes together. A transpose costs the elements that it
// moves, and the pass only makes changes that reduce the total, both for small and for large named sizes.
// Values that a Loop or Scan carries, slices or stacks, and values that branches return, change their layout
// inside and outside of the body together. A transpose in a loop body counts once per iteration (16 if the
// trip count is unknown).
// What stops it: savings only for some sizes, operators that refer to axes by position, bodies of other
// operators.
// Rounds where a reduction adds floats along several axes whose order changes; otherwise elements only move.
// Like MIL's reduce_transposes, which only moves them downwards, counts ops instead of elements, and stays in
// its block. remove_redundant_transpose_pairs and remove_redundant_transpose_reduce run before the fusions,
// since transposes hide patterns; merge_views and move_unit_axes handle transposes of axes of size one.
#include "passes/mincut/minimize.h"
#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass move_transposes() {
  return Pass::on_graph(Numerics::kRounds, needs({"Transpose"}), [](Graph& g, PassContext& context) {
    Graph* graphs[] = {&g};
    return layout::minimize_transposes(graphs, context);
  });
}

}  // namespace sardonyx::onnx
