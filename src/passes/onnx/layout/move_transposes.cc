//   x ── Transpose<0,3,1,2> ── Conv ── Transpose<0,2,3,1> ── Max(0) ── Transpose<0,3,1,2> ── Conv ──
//                      =>   x ── Transpose<0,3,1,2> ── Conv ── Max(0) ── Conv ──
//
// Moves transposes through the nodes around them, down and up, so that they meet and cancel: through elementwise
// nodes (constants are transposed once, when they are written), reductions, Concat, Split, Slice, Pad, Softmax,
// ArgMax, Resize, Reshapes that keep axes together, and the others in passes/layout/family.cc. The pass looks at all
// transposes together: a transpose costs the elements it moves, and only what makes the whole cheaper is done. Named
// sizes are taken as small and as large. What a Loop or Scan carries, cuts or stacks, and what branches return, changes
// its layout inside and outside of the body together; a transpose inside of a loop costs as often as that runs (16
// times if nothing says it).
// Left alone: what is only cheaper for some sizes, operators that mean axes by position, bodies of other operators.
// Rounds where a reduction adds floats along several axes whose order changes; all else only moves.
// Like MIL's reduce_transposes, which moves them downwards only.
#include "passes/layout/minimize.h"
#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass move_transposes() {
  return Pass::on_graph(Numerics::kRounds, needs({"Transpose"}), [](Graph& g, PassContext& context) {
    Graph* graphs[] = {&g};
    return layout::minimize_transposes(graphs, context);
  });
}

}  // namespace sardonyx::onnx
