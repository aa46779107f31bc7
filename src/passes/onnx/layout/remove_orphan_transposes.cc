//   x ── Transpose ── (no users)      =>   (nothing)
//
// Goes in reverse order, so that one walk removes a chain.
// After jax2onnx's pass of this name.
#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass remove_orphan_transposes() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    size_t nodes = 0;
    const auto graphs = graphs_in(top);
    for (auto g = graphs.rbegin(); g != graphs.rend(); ++g) {
      for (Node* n = (*g)->last(); n != nullptr;) {
        Node* before = n->prev();
        if (n->is("Transpose") && !n->any_result_used()) {
          (*g)->erase(*n);
          ++nodes;
        }
        n = before;
      }
    }
    context.log.count("nodes", nodes);
    return nodes > 0;
  });
}

}  // namespace sardonyx::onnx
