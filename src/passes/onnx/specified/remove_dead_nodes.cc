// Removes what no result depends on: nodes against the order, so that a dead chain of any length goes in one walk, then constants
// without readers. Values that leave a body through an unread result of its If or Loop stay: the signature of a body is its node's.
#include "rewrite/pass.h"

namespace sardonyx::onnx {

Pass remove_dead_nodes() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    const size_t nodes = erase_dead_nodes(top);
    size_t constants = 0;
    for (Graph* g : graphs_in(top)) constants += g->erase_unread_constants();
    context.log.count("nodes", nodes);
    context.log.count("constants", constants);
    return nodes + constants > 0;
  });
}

}  // namespace sardonyx::onnx
