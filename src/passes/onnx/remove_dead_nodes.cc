// Removes what no result depends on: nodes against the order, so that a dead chain of any length goes in one walk, then constants
// without readers. Values that leave a body through an unread result of its If or Loop stay: the signature of a body is its node's.
#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass remove_dead_nodes() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    size_t nodes = 0, constants = 0;
    const auto graphs = graphs_in(top);
    for (auto g = graphs.rbegin(); g != graphs.rend(); ++g) {
      for (Node* n = (*g)->last(); n != nullptr;) {
        Node* before = n->prev();
        if (!n->any_result_used() && is_removable(*n)) {
          (*g)->erase(*n);
          ++nodes;
        }
        n = before;
      }
    }
    for (Graph* g : graphs) {
      if (g->parent() == nullptr || g->parent()->alive()) constants += g->erase_unread_constants();
    }
    context.count("nodes", nodes);
    context.count("constants", constants);
    return nodes + constants > 0;
  });
}

}  // namespace sardonyx::onnx
