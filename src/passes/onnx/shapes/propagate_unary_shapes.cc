// Infers the types of elementwise results with one operand (Gelu, Cast, Identity, ...) and of Dropout, and
// declares them, so that the written file contains them along with the symbols of dynamic sizes.
// After jax2onnx's pass of this name.
#include "passes/onnx/shapes/propagate_shapes.h"

namespace sardonyx::onnx {

Pass propagate_unary_shapes() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    return propagate_shapes(top, context, [](const Node& n) {
      if (n.has(Trait::kElementwise)) return n.has(Trait::kUnary) || n.is("CastLike");
      return n.is("Dropout");
    });
  });
}

}  // namespace sardonyx::onnx
