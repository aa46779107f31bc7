// Removes dead nodes, in reverse order so that one walk removes a chain of any length, then constants without
// users. Values that leave a body through an unused result of its If or Loop stay: the node determines the
// signature of its body.
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
