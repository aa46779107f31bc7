// Infers the types of elementwise results with several operands (Add, Where, Clip, ...) and declares them, so
// that the written file contains them. Symbolic sizes stay symbolic.
// After jax2onnx's pass of this name.
#include "passes/onnx/shapes/propagate_shapes.h"

namespace sardonyx::onnx {

bool propagate_shapes(Graph& top, PassContext& context, bool (*concerns)(const Node&)) {
  Types& types = context.model.types();
  size_t values = 0;
  for (Graph* g : graphs_in(top)) {
    for (Node& n : g->nodes()) {
      if (n.unchecked() || !concerns(n)) continue;
      infer_node(n, context.facts);
      Value& v = *n.result();
      if (!v.ranked()) continue;
      const auto known = g->value_info.find(&v);
      const Type* before = known == g->value_info.end() ? nullptr : known->second.declared;
      const Type* now = types.meet(before, v.type());
      if (now == nullptr || now == before) continue;
      g->edit_value_info(v).declared = now;
      ++values;
    }
  }
  context.log.count("values", values);
  return values > 0;
}

Pass propagate_elementwise_shapes() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    return propagate_shapes(
        top, context, [](const Node& n) { return n.has(Trait::kElementwise) && !n.has(Trait::kUnary) && !n.is("CastLike"); });
  });
}

}  // namespace sardonyx::onnx
