//   Constant ── x      =>   x, an initializer
//
// Applies to the graph and its bodies, for constants of any size. Functions have no initializers, so their
// constants stay nodes. Constants that are results of a graph stay too, since a writer would need a node for
// them again, as do sparse constants, which would grow.
// After jax2onnx's pass of this name (onnx_ir).
#include <algorithm>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass lift_constants_to_initializers() {
  return Pass::on_graph(Numerics::kExact, needs({"Constant"}), [](Graph& top, PassContext& context) {
    if (top.function() != &context.model.main()) return false;
    size_t constants = 0;
    for (Graph* g : graphs_in(top)) {
      for (Node& n : g->nodes()) {
        if (n.num_results() == 0 || !n.result()->is_constant() || is_graph_result(*n.result())) continue;
        const Attrs* read = n.extra() != nullptr ? n.extra()->payload_attrs : nullptr;
        if (read != nullptr && read->find("sparse_value") != nullptr) continue;
        Value& old = *n.result();
        Value& lifted = *g->add_constant(old.constant());
        lifted.set_name(old.name());
        g->replace_uses(old, lifted);
        g->erase(n);
        ++constants;
      }
    }
    context.log.count("constants", constants);
    return constants > 0;
  });
}

}  // namespace sardonyx::onnx
